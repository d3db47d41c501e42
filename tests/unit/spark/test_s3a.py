"""Storage options as settings of Hadoop's client for S3, and where its jars come from; no Spark, no network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from support.errors import raises
from tidegate.errors import EnvironmentProblem
from tidegate.spark.jars import S3, coordinate_of
from tidegate.spark.s3a import settings
from tidegate.specs.locations import Location, Options

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}


def of(environment: dict[str, str] | None = None, **options: str) -> dict[str, str]:
    """The settings of a bucket, without what their names have in common."""
    chosen = settings(Location("s3://my.lake/t", Options(options)), environment or {})
    return {name.removeprefix("fs.s3a.bucket.my.lake."): value for name, value in chosen.items()}


def test_entries_can_always_be_created_conditionally() -> None:
    assert of()["create.conditional.enabled"] == "true"


@pytest.mark.parametrize(
    ("options", "provider", "more"),
    [
        ({}, "DefaultCredentialsProvider", {}),
        (KEYS, "SimpleAWSCredentialsProvider", {"access.key": "key", "secret.key": "hidden"}),
        ({**KEYS, "aws_session_token": "t"}, "TemporaryAWSCredentialsProvider", {"session.token": "t"}),
        ({**KEYS, "AWS_SKIP_SIGNATURE": "true"}, "AnonymousAWSCredentialsProvider", {}),
        ({"AWS_ACCESS_KEY_ID": "half"}, "DefaultCredentialsProvider", {}),
    ],
)
def test_credentials_are_those_given_or_those_of_the_machine(
    options: dict[str, str], provider: str, more: dict[str, str]
) -> None:
    chosen = of(**options)
    assert chosen["aws.credentials.provider"].endswith(f".{provider}")
    assert chosen.items() >= more.items()
    assert ("secret.key" in chosen) == (provider in ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"))


def test_a_server_of_ones_own_is_asked_by_paths_and_amazon_by_host_names() -> None:
    own = of(AWS_ENDPOINT_URL="http://127.0.0.1:9000", AWS_REGION="us-east-1")
    assert (own["endpoint"], own["path.style.access"]) == ("http://127.0.0.1:9000", "true")
    assert (own["connection.ssl.enabled"], own["endpoint.region"]) == ("false", "us-east-1")
    assert "path.style.access" not in of(AWS_REGION="us-east-1")
    by_host = of(AWS_ENDPOINT_URL="https://my.lake.s3.example.org", AWS_VIRTUAL_HOSTED_STYLE_REQUEST="true")
    assert (by_host["endpoint"], by_host["path.style.access"]) == ("https://s3.example.org", "false")
    assert by_host["connection.ssl.enabled"] == "true"


def test_options_go_before_the_environment_and_those_of_other_schemes_are_left_out() -> None:
    chosen = of(
        {"AWS_REGION": "of-the-machine", "AWS_ENDPOINT_URL": "http://machine"}, AWS_REGION="given", timeout="3s"
    )
    assert (chosen["endpoint.region"], chosen["endpoint"]) == ("given", "http://machine")
    assert "given" not in of(GOOGLE_SERVICE_ACCOUNT="given").values()


def test_what_hadoop_would_replace_is_refused_without_showing_it() -> None:
    with raises(EnvironmentProblem, "s3://my.lake/t", "secret.key", "'${'") as refused:
        of(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="x${env.HOME}")
    assert "env.HOME" not in str(refused.value)


def test_encryption_and_payment_are_handed_on() -> None:
    chosen = of(AWS_SERVER_SIDE_ENCRYPTION="aws:kms", AWS_SSE_KMS_KEY_ID="which", AWS_REQUEST_PAYER="true")
    assert (chosen["encryption.algorithm"], chosen["encryption.key"]) == ("SSE-KMS", "which")
    assert chosen["requester.pays.enabled"] == "true"


def test_the_way_to_s3_is_of_the_version_of_sparks_own_hadoop() -> None:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = Path(found.origin).parent / "jars"
    version = coordinate_of(S3).split(":")[2]
    assert [jar.name for jar in jars.glob("hadoop-client-api-*.jar")] == [f"hadoop-client-api-{version}.jar"]
