"""Records of four real shapes, made from a seed: events, posts, logs and measurements.

Each shape is written as its makers write it: keys in the same order, nulls and empty objects where there is nothing,
some objects left out. ``declared`` is what a careful person declares; ``corrupt`` breaks some lines.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

_WORDS = (
    *("river", "stone", "bridge", "morning", "letter", "engine", "window", "garden", "summer", "silver", "market"),
    *("paper", "forest", "signal", "winter", "harbour", "copper", "meadow", "lantern", "valley", "orchard", "timber"),
    *("canvas", "pebble", "compass", "ribbon", "anchor", "thunder", "velvet", "marble"),
)
_FOREIGN = (
    "grün",
    "naïve",
    "città",
    "日本語",
    "русский",
    "العربية",
    "😀",
    "🚀✨",
    "“quoted”",
    "tab\tinside",
    'a "b" c',
    "back\\slash",
)


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


def _moment(chance: random.Random) -> str:
    return (
        f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T{chance.randrange(24):02d}:"
        f"{chance.randrange(60):02d}:{chance.randrange(60):02d}Z"
    )


def _hash(chance: random.Random) -> str:
    return f"{chance.getrandbits(160):040x}"


# Events of a code forge: deeply nested, around 190 leaves, much of it absent, null or empty.


def _account(chance: random.Random) -> Record:
    login = f"{chance.choice(_WORDS)}-{chance.randrange(9999)}"
    root = f"https://api.forge.example/users/{login}"
    return {
        "login": login,
        "id": chance.randrange(10**8),
        "node_id": f"MDQ6VXNlcg{chance.randrange(10**6)}==",
        "avatar_url": f"https://avatars.forge.example/u/{chance.randrange(10**8)}?v=4",
        "gravatar_id": "",
        "url": root,
        "html_url": f"https://forge.example/{login}",
        "followers_url": f"{root}/followers",
        "starred_url": f"{root}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{root}/subscriptions",
        "organizations_url": f"{root}/orgs",
        "repos_url": f"{root}/repos",
        "type": "User",
        "site_admin": False,
    }


def _repository(chance: random.Random) -> Record:
    name = f"{chance.choice(_WORDS)}/{chance.choice(_WORDS)}"
    root = f"https://api.forge.example/repos/{name}"
    return {
        "id": chance.randrange(10**9),
        "name": name,
        "full_name": name,
        "private": False,
        "owner": _account(chance),
        "html_url": f"https://forge.example/{name}",
        "description": chance.choice((None, _text(chance, 9))),
        "fork": chance.random() < 0.2,
        "url": root,
        "forks_url": f"{root}/forks",
        "branches_url": f"{root}/branches{{/branch}}",
        "commits_url": f"{root}/commits{{/sha}}",
        "created_at": _moment(chance),
        "pushed_at": _moment(chance),
        "homepage": chance.choice((None, "", "https://docs.example")),
        "size": chance.randrange(10**5),
        "stargazers_count": chance.randrange(5000),
        "language": chance.choice((None, "Python", "Rust", "Java", "C++")),
        "has_issues": True,
        "has_wiki": chance.random() < 0.5,
        "mirror_url": None,
        "license": chance.choice((None, {"key": "apache-2.0", "name": "Apache License 2.0", "spdx_id": "Apache-2.0"})),
        "topics": chance.choices(_WORDS, k=chance.randrange(4)),
        "default_branch": "main",
    }


def _commit(chance: random.Random) -> Record:
    return {
        "sha": _hash(chance),
        "author": {"name": _text(chance, 2), "email": f"{chance.choice(_WORDS)}@example.org"},
        "message": _text(chance, chance.randint(3, 20)) + chance.choice(("", "\n\nSigned-off-by: somebody")),
        "distinct": chance.random() < 0.9,
        "url": f"https://api.forge.example/repos/commits/{_hash(chance)}",
    }


def _event(number: int, chance: random.Random) -> Record:
    kind = chance.choice(("Push", "Push", "PullRequest", "Issues", "Watch"))
    payload: Record = {}
    if kind == "Push":
        payload = {
            "push_id": chance.randrange(10**10),
            "size": 2,
            "ref": "refs/heads/main",
            "head": _hash(chance),
            "before": _hash(chance),
            "commits": [_commit(chance) for _ in range(chance.randrange(4))],
        }
    elif kind in ("PullRequest", "Issues"):
        thing: Record = {
            "id": chance.randrange(10**9),
            "number": chance.randrange(9000),
            "state": chance.choice(("open", "closed")),
            "locked": False,
            "title": _text(chance, 7),
            "user": _account(chance),
            "body": chance.choice((None, _text(chance, 40) + "\r\n- [ ] " + _text(chance, 9))),
            "created_at": _moment(chance),
            "closed_at": chance.choice((None, _moment(chance))),
            "assignee": None,
            "assignees": [],
            "labels": [
                {"id": chance.randrange(10**6), "name": chance.choice(_WORDS), "color": "d73a4a", "default": False}
                for _ in range(chance.randrange(3))
            ],
            "milestone": None,
        }
        if kind == "PullRequest":
            side = {"label": "o:main", "ref": "main", "sha": _hash(chance), "user": _account(chance)}
            thing |= {
                "head": {**side, "repo": _repository(chance)},
                "base": {**side, "repo": _repository(chance)},
                "merged": chance.random() < 0.4,
                "mergeable": chance.choice((None, True)),
                "comments": chance.randrange(9),
                "additions": chance.randrange(900),
                "deletions": chance.randrange(900),
                "changed_files": chance.randrange(30),
            }
        payload = {
            "action": "opened",
            "number": thing["number"],
            "pull_request" if kind == "PullRequest" else "issue": thing,
        }
    else:
        payload = {"action": "started"}
    event = {
        "id": str(2 * 10**10 + number),
        "type": f"{kind}Event",
        "actor": {**_account(chance), "display_login": "x"},
        "repo": {
            "id": chance.randrange(10**9),
            "name": f"{chance.choice(_WORDS)}/{chance.choice(_WORDS)}",
            "url": "https://api.forge.example",
        },
        "payload": payload,
        "public": True,
        "created_at": _moment(chance),
    }
    if chance.random() < 0.3:
        event["org"] = {
            "id": chance.randrange(10**7),
            "login": chance.choice(_WORDS),
            "gravatar_id": "",
            "url": "",
            "avatar_url": "",
        }
    return event


# Posts: text of all scripts with escapes, optional objects, half of the fields null.


def _person(chance: random.Random) -> Record:
    return {
        "id": chance.randrange(10**9),
        "id_str": str(chance.randrange(10**9)),
        "name": chance.choice(_FOREIGN) + " " + chance.choice(_WORDS),
        "screen_name": chance.choice(_WORDS),
        "location": chance.choice((None, "", "München", "東京")),
        "url": None,
        "description": chance.choice((None, _text(chance, 12) + " " + chance.choice(_FOREIGN))),
        "protected": False,
        "followers_count": chance.randrange(10**6),
        "friends_count": chance.randrange(5000),
        "favourites_count": chance.randrange(10**5),
        "statuses_count": chance.randrange(10**5),
        "created_at": "Wed Oct 10 20:19:24 +0000 2018",
        "utc_offset": None,
        "time_zone": None,
        "geo_enabled": chance.random() < 0.5,
        "verified": False,
        "lang": None,
        "contributors_enabled": False,
        "profile_image_url": "http://images.example/profile/normal.jpg",
        "default_profile": True,
        "following": None,
        "notifications": None,
    }


def _post(number: int, chance: random.Random, deep: bool = True) -> Record:
    post: Record = {
        "created_at": "Wed Oct 10 20:19:24 +0000 2018",
        "id": 10**18 + number,
        "id_str": str(10**18 + number),
        "text": _text(chance, chance.randint(3, 15)) + " " + " ".join(chance.choices(_FOREIGN, k=3)),
        "source": '<a href="http://client.example/" rel="nofollow">Client</a>',
        "truncated": False,
        "in_reply_to_status_id": chance.choice((None, 10**18 + chance.randrange(10**6))),
        "in_reply_to_user_id": None,
        "in_reply_to_screen_name": None,
        "user": _person(chance),
        "geo": None,
        "coordinates": chance.choice(
            (None, None, {"type": "Point", "coordinates": [chance.uniform(-180, 180), chance.uniform(-90, 90)]})
        ),
        "place": None,
        "contributors": None,
        "is_quote_status": False,
        "retweet_count": chance.randrange(100),
        "favorite_count": chance.randrange(1000),
        "entities": {
            "hashtags": [
                {"text": chance.choice(_FOREIGN[:6]), "indices": [n, n + 5]} for n in range(chance.randrange(4))
            ],
            "urls": [],
            "user_mentions": [
                {
                    "screen_name": chance.choice(_WORDS),
                    "name": chance.choice(_FOREIGN),
                    "id": chance.randrange(10**9),
                    "indices": [3, 19],
                }
                for _ in range(chance.randrange(3))
            ],
            "symbols": [],
        },
        "favorited": False,
        "retweeted": False,
        "filter_level": "low",
        "lang": chance.choice(("en", "ja", "de", "und")),
    }
    if chance.random() < 0.3:
        post["possibly_sensitive"] = False
    if deep and chance.random() < 0.4:
        post["retweeted_status"] = _post(number + 10**9, chance, deep=False)
    return post


# Logs: 200 flat columns, half of them absent from every line.


def _log(number: int, chance: random.Random) -> Record:
    log: Record = {"time": _moment(chance), "level": chance.choice(("INFO", "WARN", "DEBUG")), "line": number}
    for column in range(197):
        if chance.random() < 0.5:
            match column % 4:
                case 0:
                    log[f"field_{column:03d}"] = chance.choice(_WORDS)
                case 1:
                    log[f"field_{column:03d}"] = chance.randrange(10**6)
                case 2:
                    log[f"field_{column:03d}"] = round(chance.random() * 100, 3)
                case _:
                    log[f"field_{column:03d}"] = chance.random() < 0.5
    return log


# Measurements: numbers and hardly anything else.


def _measurement(number: int, chance: random.Random) -> Record:
    return {
        "device": 1000 + number % 500,
        "sequence": number,
        "time": 1_760_000_000_000 + 250 * number,
        "temperature": round(chance.gauss(21, 4), 3),
        "humidity": round(chance.random() * 100, 2),
        "pressure": round(chance.gauss(1013, 9), 4),
        "voltage": chance.random() * 5,
        "acceleration": [chance.gauss(0, 1) for _ in range(3)],
        "position": {
            "lat": chance.uniform(-90, 90),
            "lon": chance.uniform(-180, 180),
            "alt": round(chance.random() * 900, 1),
        },
        "samples": [chance.randrange(4096) for _ in range(8)],
        "battery": chance.randrange(101),
        "error": None,
    }


def _neat(number: int, chance: random.Random) -> Record:
    return {
        "id": number,
        "ts": _moment(chance),
        "event": chance.choice(("click", "view", "purchase", "signup", "logout")),
        "price": round(chance.random() * 1000, 2),
        "user": {"name": f"user{chance.randrange(5000):05d}", "country": chance.choice(("DE", "FR", "US", "CN", "JP"))},
        "tags": [f"tag{chance.randrange(50)}" for _ in range(chance.randrange(4))],
        "ok": chance.random() < 0.5,
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """How one record is made, how texts are escaped, and which of its columns a moderate schema leaves out."""

    name: str
    make: Callable[[int, random.Random], Record]
    ascii: bool = False
    left_out: tuple[str, ...] = ()

    def lines(self, count: int, seed: int = 11) -> Iterator[bytes]:
        """So many records, one per line."""
        chance = random.Random(seed)
        for number in range(count):
            record = self.make(number, chance)
            yield json.dumps(record, ensure_ascii=self.ascii, separators=(",", ":")).encode() + b"\n"


NEAT = Shape("neat", _neat, left_out=("user", "tags"))
SHAPES = (
    Shape("events", _event, left_out=("payload", "org")),
    Shape("posts", _post, ascii=True, left_out=("user", "retweeted_status")),
    Shape("logs", _log, left_out=tuple(f"field_{column:03d}" for column in range(100, 197))),
    Shape("measurements", _measurement, left_out=("position", "samples")),
)


def corrupt(lines: Sequence[bytes], share: float, seed: int = 3) -> list[bytes]:
    """Some lines that are no JSON objects: cut, with a comma too many, or in an array, in turns."""
    chance = random.Random(seed)
    found = list(lines)
    for turn, place in enumerate(chance.sample(range(len(found)), round(share * len(found)))):
        line = found[place]
        match turn % 3:
            case 0:
                found[place] = line[: len(line) // 2] + b"\n"
            case 1:
                found[place] = line[:-2] + b",}\n"
            case _:
                found[place] = b"[" + line[:-1] + b"]\n"
    return found


def misfit(lines: Sequence[bytes], share: float, seed: int = 3) -> list[bytes]:
    """Some records with one value that does not fit its column: a number for a text, a text for anything else."""
    chance = random.Random(seed)
    found = list(lines)
    for place in chance.sample(range(len(found)), round(share * len(found))):
        record = json.loads(found[place])
        name = chance.choice([name for name, value in record.items() if value is not None])
        record[name] = 7 if isinstance(record[name], str) else "n/a"
        found[place] = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    return found
