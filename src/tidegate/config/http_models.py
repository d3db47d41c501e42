"""Connections to HTTP APIs, and lists of records in their answers as sources."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tidegate.config import column_values as c
from tidegate.config import values as v
from tidegate.config.blocks import Model
from tidegate.config.column_models import ColumnSourceModel, LookBackModel, WatermarkParamModel
from tidegate.specs.columns import AuthKind, PaginationKind
from tidegate.specs.locations import Options


class AuthModel(Model):
    """Who asks."""

    type: c.Auth = Field(default=AuthKind.NONE, description="How the server is told who asks.")
    token: c.SecretText | None = Field(default=None, description="The token, or the API key; never shown.")
    user: v.Text | None = Field(default=None, description="The user, for basic.")
    password: c.SecretText | None = Field(default=None, description="The password, for basic; never shown.")
    name: v.Text = Field(default="X-API-Key", description="The header or parameter that takes an API key.")
    place: c.AuthPlace = Field(default="header", description="Where an API key goes.")
    token_url: c.HttpUrl | None = Field(default=None, description="Where OAuth2 tokens are asked for.")
    client_id: v.Text | None = Field(default=None, description="The client, for OAuth2.")
    client_secret: c.SecretText | None = Field(default=None, description="The client's secret; never shown.")
    scope: v.Text | None = Field(default=None, description="What the token is for, for OAuth2.")


class RateLimitModel(Model):
    """How fast the server may be asked, all tasks together."""

    requests: v.Count = Field(description="So many requests")
    per_seconds: c.Seconds = Field(default=1.0, description="in so many seconds.")


class RetriesModel(Model):
    """What happens on 429, 5xx and time-outs."""

    attempts: v.CountOrNone = Field(default=5, description="Tries after the first.")
    base_secs: c.Seconds = Field(default=0.5, description="The wait before the first of them; it doubles each time.")
    max_wait_secs: c.Seconds = Field(default=60.0, description="The longest wait; a Retry-After above it is an error.")


class HttpConnectionModel(Model):
    """An HTTP API."""

    step: ClassVar[str] = "<http connection>"
    type: c.HttpType = Field(description="The kind of connection.")
    url: c.HttpUrl = Field(description="What all addresses begin with, without credentials.")
    headers: v.SecretOptions = Field(default_factory=Options, description="Sent with each request; never shown.")
    auth: AuthModel = Field(default_factory=AuthModel.model_construct, description="Who asks.")
    rate_limit: RateLimitModel | None = Field(default=None, description="How fast the server may be asked.")
    retries: RetriesModel = Field(
        default_factory=RetriesModel.model_construct, description="What happens when the server does not answer well."
    )
    timeout_secs: c.Seconds = Field(default=60.0, description="How long one request may take.")
    allowed_origins: c.Origins = Field(
        default=(), description="Other servers that links and redirects may lead to, without credentials."
    )
    configure: LookBackModel = Field(
        default_factory=LookBackModel.model_construct, description="Look-back of sources that have none of their own."
    )


class PaginationModel(Model):
    """How the server divides an answer into pages."""

    type: c.Pages = Field(default=PaginationKind.NONE, description="The kind of pages.")
    param: v.Text | None = Field(default=None, description="The parameter of the offset, page number or cursor.")
    size_param: v.Text | None = Field(default=None, description="The parameter of the page's size.")
    size: v.Count | None = Field(default=None, description="Records per page.")
    start: v.CountOrNone | None = Field(default=None, description="The first offset or page; 0, for pages 1.")
    next: c.Place | None = Field(
        default=None, description="Where the answer has the cursor or the link; links also come in a header."
    )
    total: c.Place | None = Field(default=None, description="Where the answer has the number of all records.")
    max_pages: v.Count = Field(default=10_000, description="More pages than this are an error.")


class RequestModel(Model):
    """What a request to an API has."""

    step: ClassVar[str] = "<http source>"
    method: c.Method = Field(default="GET", description="GET or POST.")
    headers: v.SecretOptions = Field(default_factory=Options, description="Further headers; never shown.")
    body: c.Body | None = Field(default=None, description="The JSON object that a POST sends.")
    idempotent: v.Flag = Field(default=False, description="Whether a POST may be repeated after a failure.")
    parallelism: v.Whole | None = Field(default=None, ge=1, le=10_000, description="Requests at once.")
    max_response_mb: v.Whole = Field(
        default=512, ge=1, le=65_536, description="A larger answer is an error (MB of 1,048,576 bytes)."
    )


class HttpRequestModel(RequestModel):
    """Requests to an API that answer with records."""

    connection: v.Name = Field(description="The name of a connection of type http.")
    records: c.Place | None = Field(
        default=None, description="Where the answer has the list of records; unset: the answer is the list."
    )
    error: c.Place | None = Field(default=None, description="Where an answer with status 200 tells an error.")
    pagination: PaginationModel = Field(
        default_factory=PaginationModel.model_construct, description="How the server divides an answer into pages."
    )


class HttpSourceModel(ColumnSourceModel, WatermarkParamModel, HttpRequestModel):
    """Records of an HTTP API."""

    step: ClassVar[str] = "<http source>"
    type: c.HttpType = Field(default="http", description="The kind of source; known by the connection.")
    path: c.HttpPath | None = Field(default=None, description="What follows the connection's url.")
    params: c.Params = Field(default_factory=dict, description="Parameters of each request.")
