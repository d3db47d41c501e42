"""What keys of HTTP connections and sources mean together: credentials, pages, bodies, bounds in requests."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.tree import Block, Loc
from tidegate.config.words import setting, words
from tidegate.specs.locations import NotOrigin, origin_of, refusal

_AUTH = {
    "none": (),
    "bearer": ("token",),
    "basic": ("user", "password"),
    "api_key": ("token",),
    "oauth2": ("token_url", "client_id", "client_secret"),
}
_MORE_AUTH = {"api_key": ("name", "place"), "oauth2": ("scope",)}
_PAGES = {
    "none": (),
    "offset": (),
    "page": (),
    "cursor": ("next",),
    "next_link": (),
}
_MORE_PAGES = {
    "offset": ("param", "size_param", "size", "start", "total", "max_pages"),
    "page": ("param", "size_param", "size", "start", "total", "max_pages"),
    "cursor": ("param", "size_param", "size", "total", "max_pages"),
    "next_link": ("size_param", "size", "next", "total", "max_pages"),
}


def connection_problems(root: Block, where: Loc, connection: Block) -> Iterator[Problem]:
    """Problems of one HTTP connection."""
    if connection.get("auth") is not None:
        auth = connection.block("auth")
        yield from _kind_problems(root, (*where, "auth"), auth, _AUTH, _MORE_AUTH)
    yield from _origin_problems(root, where, connection)


def _origin_problems(root: Block, where: Loc, connection: Block) -> Iterator[Problem]:
    """Origins that no link would be followed to, although they are named."""
    try:
        home = origin_of(str(connection.text("url") or ""))
        named = [origin_of(str(word)) for word in words(connection.get("allowed_origins"))]
    except NotOrigin:
        return
    for each in named:
        refused = refusal(home, each, named)
        if refused is not None:
            text = f"{refused[0]}; allowed: another server, by https where the connection's url has it"
            yield problem(root, (*where, "allowed_origins"), text)


def request_problems(root: Block, where: Loc, source: Block) -> Iterator[Problem]:
    """Problems of one HTTP source."""
    pages = source.block("pagination")
    yield from _kind_problems(root, (*where, "pagination"), pages, _PAGES, _MORE_PAGES)
    if pages.get("size") is not None and pages.get("size_param") is None:
        text = "is missing; it carries the size to the server"
        yield problem(root, (*where, "pagination", "size_param"), text)
    posts = source.text("method") == "POST"
    for key in ("body", "idempotent"):
        if source.get(key) is not None and not posts:
            yield problem(root, (*where, key), "is about POST; set method: POST, or remove it")
    yield from _bound_problems(root, where, source, posts=posts)


def _kind_problems(
    root: Block,
    where: Loc,
    block: Block,
    needs: dict[str, tuple[str, ...]],
    more: dict[str, tuple[str, ...]],
) -> Iterator[Problem]:
    """Keys that a kind needs and does not have, and keys of other kinds."""
    kind = str(block.text("type") or "none")
    if kind not in needs:
        return
    for key in needs[kind]:
        if block.get(key) is None:
            yield problem(root, (*where, key), f"is missing; {kind} needs it")
    others = {key for keys in (*needs.values(), *more.values()) for key in keys}
    for key in block:
        if key in others and key not in (*needs[kind], *more.get(kind, ())) and block.get(key) is not None:
            yield problem(root, (*where, key), f"means nothing with type {kind}; remove it, or set another type")


def _bound_problems(root: Block, where: Loc, source: Block, *, posts: bool) -> Iterator[Problem]:
    columns = [str(word) for word in words(source.get("watermark_columns"))]
    mapping = setting(source, "watermark_param_mapping")
    mapped = [str(column) for column in mapping] if isinstance(mapping, Block) else []
    at = (*where, *_place(source, "watermark_param_mapping"))
    for column in mapped:
        if column not in columns:
            known = f"allowed: {', '.join(columns)}" if columns else "give watermark_columns"
            text = sentence(f"{column!r} is no watermark column", nearest(column, columns) or known)
            yield problem(root, (*at, column), text)
    if mapped and len(columns) > 1 and (source.text("watermark_mode") != "tuple" or mapped != columns[:1]):
        text = (
            "a server gives records that fulfil all parameters, and those that are new by one column alone would be "
            "missing; allowed: one watermark column, or watermark_mode: tuple with the first column mapped"
        )
        yield problem(root, at, text)
    if setting(source, "watermark_param_location") == "body" and not posts:
        text = "body, and the method is GET; set method: POST, or params"
        yield problem(root, (*where, *_place(source, "watermark_param_location")), text)
    split = setting(source, "watermark_split")
    if split is not None and split != "1" and not (mapped and setting(source, "watermark_to_param") is not None):
        text = "needs both bounds in each request: watermark_param_mapping and watermark_to_param"
        yield problem(root, (*where, *_place(source, "watermark_split")), text)


def _place(source: Block, key: str) -> tuple[str, ...]:
    return (key,) if source.get(key) is not None else ("configure", key)
