"""How files of each format become blocks of rows: one module per format, one port for all of them."""
