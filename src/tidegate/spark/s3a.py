"""How Spark reaches S3, and locations as Spark opens them.

Settings go into the running session's Hadoop configuration, which travels to the executors with each job. They are part
of no plan, no SQL setting and no event log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlunsplit

from tidegate.errors import EnvironmentProblem
from tidegate.spark.jars import CLASS, SETTING
from tidegate.spark.session import VARIABLE
from tidegate.specs.locations import Location, split_address
from tidegate.storage.options import of_scheme, pick_option, split_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_FOUND = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""Environment, web identity, container or instance, as the machine offers them."""

_NAMES = {
    "access_key": ("aws_access_key_id",),
    "secret_key": ("aws_secret_access_key",),
    "token": ("aws_session_token", "aws_token"),
    "region": ("aws_region", "aws_default_region"),
    "endpoint": ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"),
    "unsigned": ("aws_skip_signature",),
    "in_host": ("aws_virtual_hosted_style_request",),
    "encryption": ("aws_server_side_encryption",),
    "encryption_key": ("aws_sse_kms_key_id", "aws_sse_customer_key_base64"),
    "payer": ("aws_request_payer",),
}
_ENCRYPTION = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS", "sse-c": "SSE-C"}
_TRUE = ("true", "1", "yes", "on", "y")


def settings(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings by which Hadoop's client reaches ``location`` as ours does; options precede ``environment``.

    >>> from tidegate.specs.locations import Options
    >>> lake = Location("s3://lake/t", Options({"AWS_REGION": "eu-central-1"}))
    >>> settings(lake, {})["fs.s3a.bucket.lake.endpoint.region"]
    'eu-central-1'
    """
    _, bucket, _ = split_uri(location.uri)
    given = of_scheme(location.options, "s3")
    picked = {ours: pick_option(names, given, environment) for ours, names in _NAMES.items()}
    meant = {ours: value for ours, value in picked.items() if value}
    in_host = meant.get("in_host", "").lower() in _TRUE
    # The log store relies on it (decision 0015); a cluster's own settings must not turn it off for this bucket.
    chosen = {"create.conditional.enabled": "true", **_credentials(meant)}
    if "region" in meant:
        chosen["endpoint.region"] = meant["region"]
    if "endpoint" in meant:
        chosen["endpoint"] = _without_bucket(meant["endpoint"], bucket) if in_host else meant["endpoint"]
        chosen["path.style.access"] = str(not in_host).lower()
        chosen["connection.ssl.enabled"] = str(not meant["endpoint"].startswith("http:")).lower()
    if "encryption" in meant:
        chosen["encryption.algorithm"] = _ENCRYPTION.get(meant["encryption"], meant["encryption"])
    if "encryption_key" in meant:
        chosen["encryption.key"] = meant["encryption_key"]
    if meant.get("payer", "").lower() in _TRUE:
        chosen["requester.pays.enabled"] = "true"
    for name, value in chosen.items():
        if VARIABLE in value:
            raise EnvironmentProblem(
                f"{location.uri}: {name} holds '{VARIABLE}', and Hadoop replaces '{VARIABLE}…}}' by a variable",
                "give the server other credentials, or another address",
            )
    # For this bucket alone: the session may reach other buckets with other credentials.
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in chosen.items()}


def reach(session: SparkSession, location: Location) -> str:
    """The path of ``location`` for Spark; the session learns how to reach it."""
    scheme, bucket, path = split_uri(location.uri)
    if scheme != "s3":
        return f"/{path}"
    hadoop = session.sparkContext._jsc.hadoopConfiguration()  # there is no public way
    for name, value in settings(location, os.environ).items():
        present = hadoop.get(name)
        if present is None:
            hadoop.set(name, value)
        # A session has one set of credentials per bucket (decision 0015).
        elif present != value:
            raise EnvironmentProblem(
                f"the Spark session is configured for bucket {bucket!r} otherwise than {location.uri} needs ({name})",
                "give all pipelines of one process the same storage options for a bucket, or remove that setting from "
                "spark.config",
            )
    return f"s3a://{bucket}/{path}"


def check_writing(session: SparkSession, location: Location) -> None:
    """Raise :class:`EnvironmentProblem` unless commits of this session to ``location`` preserve those of others."""
    if split_uri(location.uri)[0] != "s3":
        return
    chosen = session.sparkContext.getConf()
    found = chosen.get("spark.delta.logStore.class") or chosen.get(SETTING)
    if found != CLASS:
        raise EnvironmentProblem(
            f"the Spark session would commit to {location.uri} by {found or 'the log store for a single driver'}, "
            "which can replace commits of other writers",
            f"start again; in a session of your own, set {SETTING} to {CLASS} and add the jars that "
            "`python -m tidegate.spark.jars` names to spark.jars",
        )


def _credentials(meant: Mapping[str, str]) -> dict[str, str]:
    """The given keys; without any, those of the machine."""
    if meant.get("unsigned", "").lower() in _TRUE:
        return {"aws.credentials.provider": _ANONYMOUS}
    if "access_key" not in meant or "secret_key" not in meant:
        return {"aws.credentials.provider": _FOUND}
    keys = {"access.key": meant["access_key"], "secret.key": meant["secret_key"]}
    if "token" not in meant:
        return {"aws.credentials.provider": _SIMPLE, **keys}
    return {"aws.credentials.provider": _TEMPORARY, **keys, "session.token": meant["token"]}


def _without_bucket(endpoint: str, bucket: str) -> str:
    """The address of the server, from one that begins with the bucket's name."""
    parts = split_address(endpoint, "the endpoint")
    return urlunsplit(parts._replace(netloc=parts.netloc.removeprefix(f"{bucket}.")))


def spark_path(session: SparkSession, location: Location, source: str) -> str:
    """The path of ``location`` for ``session``."""
    if split_uri(location.uri)[0] in ("file", "s3"):
        return reach(session, location)
    raise EnvironmentProblem(
        f"{source}: Spark {session.version} reads {location.uri} itself, and cannot reach it",
        "read from a local path or s3://, or files as 'type: files'",
    )
