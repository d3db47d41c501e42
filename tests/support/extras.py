"""The extras of the package."""

from __future__ import annotations

EXTRAS = {
    "adbc": "import adbc_driver_manager, adbc_driver_postgresql",
    "avro": "from tidegate.schema.names import avro_library; avro_library()",
    "connect": "import grpc, pyspark.sql.connect.session",
    "excel": "import python_calamine",
    "iceberg": "import pyiceberg.table",
    "java": "import jdk",
    "mysql": "import pymysql",
    "native": "from tidegate.schema.literals import find_native; assert find_native()",
    "spark": "import pandas, pyspark",
    "sql": "import psycopg, sqlalchemy; import tidegate.protocol.sqlalchemy_provider",
    "postgres": "import psycopg",
}
"""What each extra gives."""
