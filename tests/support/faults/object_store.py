"""An object store for tests: as much of the S3 protocol as Arrow and delta-rs speak, in memory.

It checks no signatures, and has one bucket, which is always there.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
DATE = "2026-01-01T00:00:00.000Z"
HTTP_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class Objects(ThreadingHTTPServer):
    """The objects by their keys, and what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.held: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.uploads = count(1)
        self.asked: list[str] = []
        self.lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """What clients are told by."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}",
            "AWS_ACCESS_KEY_ID": "who",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def object_store() -> Iterator[Objects]:
    """Give an empty object store, for as long as the block lasts."""
    server = Objects()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Objects

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""

    # ---- what is asked

    def _parsed(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.server.asked.append(f"{self.command} {key} {self.headers.get('Range', '')}".rstrip())
        return key, query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _unchunked(body) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def _chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": HTTP_DATE, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _say(self, text: str, status: int = 200) -> None:
        self._answer(status, f"<?xml version='1.0'?>{text}".encode(), Content_Type="application/xml")

    def _refuse(self, status: int, code: str) -> None:
        self._say(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status)

    # ---- verbs

    def do_HEAD(self) -> None:
        """Tell the size of an object; a bucket is always there."""
        key, _ = self._parsed()
        if key and key not in self.server.held:
            self._answer(404)
            return
        body = self.server.held.get(key, b"")
        self.send_response(200)
        for name, value in (
            ("Last-Modified", HTTP_DATE),
            ("Content-Length", str(len(body))),
            ("ETag", _tag(body)),
        ):
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        """Give an object or a range of it, or list keys."""
        key, query = self._parsed()
        if not key:
            self._list(query)
        elif key not in self.server.held:
            self._refuse(404, "NoSuchKey")
        else:
            body = self.server.held[key]
            low, high = _range(self.headers.get("Range"), len(body))
            whole = "Range" not in self.headers
            said = {} if whole else {"Content_Range": f"bytes {low}-{high - 1}/{len(body)}"}
            self._answer(
                200 if whole else 206, body[low:high], ETag=_tag(body), Accept_Ranges="bytes", **said
            )

    def do_PUT(self) -> None:
        """Take an object, or a part of one; `If-None-Match: *` takes no second one."""
        (key, query), body = self._parsed(), self._body()
        with self.server.lock:
            if "uploadId" in query:
                self.server.parts[query["uploadId"]][int(query["partNumber"])] = body
            elif self.headers.get("If-None-Match") == "*" and key in self.server.held:
                self._refuse(412, "PreconditionFailed")
                return
            elif key:
                self.server.held[key] = body
        self._answer(200, ETag=_tag(body))

    def do_POST(self) -> None:
        """Begin or end an upload in parts, or delete several objects."""
        (key, query), body = self._parsed(), self._body()
        if "delete" in query:
            for each in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.server.held.pop(unquote(each), None)
            self._say("<DeleteResult/>")
        elif "uploads" in query:
            name = str(next(self.server.uploads))
            self.server.parts[name] = {}
            self._say(
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
        else:
            parts = self.server.parts.pop(query["uploadId"])
            self.server.held[key] = b"".join(parts[number] for number in sorted(parts))
            self._say("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        """Forget an object, or an upload."""
        key, query = self._parsed()
        if "uploadId" in query:
            self.server.parts.pop(query["uploadId"], None)
        else:
            self.server.held.pop(key, None)
        self._answer(204)

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "")
        keys, folders = [], []
        for key in sorted(each for each in self.server.held if each.startswith(prefix) and each > after):
            inside, more, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if more:
                folders.append(prefix + inside + more)
            else:
                keys.append(key)
        held = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{DATE}</LastModified>"
            f"<ETag>{escape(_tag(self.server.held[key]))}</ETag><Size>{len(self.server.held[key])}</Size></Contents>"
            for key in keys
        )
        inside = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in dict.fromkeys(folders)
        )
        self._say(
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
            f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>{held}{inside}</ListBucketResult>"
        )


def _tag(body: bytes) -> str:
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'


def _range(header: str | None, size: int) -> tuple[int, int]:
    if header is None:
        return 0, size
    low, high = header.removeprefix("bytes=").split("-")
    if not low:
        return max(0, size - int(high)), size
    return int(low), min(size, int(high) + 1) if high else size


def _unchunked(body: bytes) -> bytes:
    """Return a body that was sent in chunks with signatures or checksums."""
    found, at = [], 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(found)
        found.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
