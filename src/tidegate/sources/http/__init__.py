"""Records of HTTP APIs: what is asked, how it is sent, and what of the answers is believed."""
