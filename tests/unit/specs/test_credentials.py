"""What counts as a credential, and what does not: both sides, because hiding too much is a defect as well."""

from __future__ import annotations

import pytest

from tidegate.specs.credentials import credentials_in_address, is_credential, is_plain_setting, looks_random

RANDOM = [
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    "d41d8cd98f00b204e9800998ecf8427e",
    "AKIAIOSFODNN7EXAMPLE",
    "zQ7x9Wk2Vb4Lm8Tn",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "0123456789abcdef0123456789abcdef",
]
ORDINARY = [
    "prod",
    "eu-west-1",
    "company-data-lake-2026-prod",
    "db-prod-01.eu-west-1.rds.amazonaws.com",
    "2026-01-28T00:00:00Z",
    "20260128T000000Z",
    "orders_v2_2026_archive",
    "myCompanyDataLake2026",
    "550e8400-e29b-41d4-a716-446655440000",
    "/tmp/tmp8k3j2h4x/in",
    "localhost:9090",
    "analytics-us-east-1-123456789012",
    "surveys2024q1",
    "q3fy2026",
    "v1.2.3-rc4",
    "acme-lake-7d9f8b6c5d",
    "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com",
    "5f3a9c1e8b7d4f2a",
    "report-2026Q1v2r3.json",
    "",
]


@pytest.mark.parametrize("value", RANDOM)
def test_generated_keys_look_random(value: str) -> None:
    assert looks_random(value)
    assert is_credential("anything", value)


@pytest.mark.parametrize("value", ORDINARY)
def test_stages_hosts_buckets_dates_and_paths_do_not(value: str) -> None:
    assert not looks_random(value)
    assert not is_credential("SOMETHING", value)


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("API_TOKEN", "abc", True),
        ("dbPassword", "x", True),
        ("SAS", "x", True),
        ("sig", "x", True),
        ("Cookie", "a=b", True),
        ("AWS_ACCESS_KEY_ID", "AKIA", True),
        ("API_TOKEN", "", False),
        ("API_TOKEN", "  ", False),
        ("STAGE", "prod", False),
        ("key", "country", False),
        ("PARTITION_KEY", "order_id", False),
        ("code", "DE", False),
        ("code", "4/0AX4XfWh9s0Zx", True),
        ("key", "AIzaSyD9tSrke72PouQMnMX", True),
        ("RUN_ID", "a1b2c3d4e5", False),
        ("BUCKET", "a1b2c3d4e5", False),
        ("WORD", "a1b2c3d4e5", False),
        ("WORD", "zQ7x9Wk2Vb4Lm8Tn", True),
        ("RUN_ID", "zQ7x9Wk2Vb4Lm8Tn", False),
        ("BUCKET2", "zQ7x9Wk2Vb4Lm8Tn", False),
        ("DB_PASS", "hunter2", True),
        ("GH_PAT", "x", True),
        ("PASS_RATE", "0.5", False),
        ("TOKENS_DIR", "in/tokens", False),
        ("PASSWORD_RESETS_TABLE", "resets", False),
        ("S3_KEY", "exports/2026/01/orders.csv", False),
        ("PARTITION_KEY", "dt=2026-01-28", False),
        ("EVENT_CODE", "summer-sale-2026", False),
        ("BATCH", "b20260128T1015Z7f3a", False),
        ("COMMIT_HASH", "3f2a9c1be7d0", False),
        ("assignment", "prod", False),
    ],
)
def test_a_name_decides_before_the_looks_of_its_value(name: str, value: str, is_one: bool) -> None:
    assert is_credential(name, value) is is_one


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("s3://K:SECRET@b/x", {"K", "SECRET"}),
        ("ftp://me:pw@h/x", {"pw"}),
        ("redis://:pw@h", {"pw"}),
        ("mongodb+srv://me:SECRET@h", {"SECRET"}),
        ("azure://x?sig=abc", {"abc"}),
        ("postgres://me:SECRET", {"SECRET"}),
        ("postgresql://me:p@ss/w@host/db", {"p@ss/w"}),
        ("postgresql://me:pw@[::1/db", {"pw"}),
        ("https://me:a%2Fb@h", {"a%2Fb", "a/b"}),
        ("https://ghp_16C7e42F292c6912E7710c8@h/x", {"ghp_16C7e42F292c6912E7710c8"}),
        ("https://h/x?key=AIzaSyD9tSrke72PouQMnMX&page=2", {"AIzaSyD9tSrke72PouQMnMX"}),
        ("https://h/x#access_token=abc", {"abc"}),
        ("sc://h:15002/;token=abc;use_ssl=true", {"abc"}),
        ("https://host:8080/users/me@example.org", set()),
        ("https://h?q=a@b&key=country", set()),
        ("https://sk_live_4eC39HqLyjWDarjtT1:@api.example.org/v1", {"sk_live_4eC39HqLyjWDarjtT1"}),
        ("https://h/x?key=hunter2", {"hunter2"}),
        ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/x", set()),
        ("abfss://raw9f8e7d6c5b@acme.dfs.core.windows.net/x", set()),
        ("postgresql://SCOTT:tiger@h/d", {"tiger"}),
        ("http://[::1]:80/x", set()),
        ("jdbc:postgresql://db-1:5432,db-2:5432/shop?sslmode=require", set()),
        ("s3://bucket/date=2026-01-28/x", set()),
        ("landing/orders", set()),
    ],
)
def test_credentials_are_found_in_addresses_of_any_scheme(address: str, found: set[str]) -> None:
    assert set(credentials_in_address(address)) == found


def test_an_ordinary_word_is_no_secret_unless_its_name_says_so() -> None:
    assert is_plain_setting("mode", "append")
    assert is_plain_setting("X-Anything", "{{token}}")
    assert not is_plain_setting("X-Auth", "swordfish")
    assert is_plain_setting("region", "eu-west-1")
    assert is_plain_setting("day", "2026-11-18")
    assert is_plain_setting("block_size", "4096")
    assert not is_plain_setting("mode", "append2")
    assert not is_plain_setting("mode", "two words")
