"""What Google Cloud Storage checks and fake-gcs-server does not: preconditions, checksums of
uploads, and the state of a resumable upload. The proxy asks this before it passes a request on."""

import asyncio
import base64
import dataclasses
import json
import re
from urllib.parse import quote, unquote

import google_crc32c
from http_messages import answer, blocks, plain_body, read_head

PATH = re.compile(r"^(?:/upload|/download)?/storage/v1/b/([^/]+)/o(?:/(.*))?$", re.DOTALL)
COPY = re.compile(r"^([^/]*)/(?:rewriteTo|copyTo)/b/([^/]+)/o/(.*)$", re.DOTALL)
PRECONDITIONS = {"ifGenerationMatch": True, "ifGenerationNotMatch": False}
SOURCE_PRECONDITIONS = {f"ifSource{key[2:]}": must for key, must in PRECONDITIONS.items()}


@dataclasses.dataclass
class Upload:
    """A resumable upload: its precondition is checked when it starts and when it ends."""

    conditions: list
    received: int = 0
    final: bytes = b""  # the answer to the last part


def objects_of(head):
    """((bucket, name) that a request reads or changes, the same of what it copies, or nothing)."""
    found = PATH.match(head.target.split("?")[0])
    if not found:
        return None, None
    bucket, name = found[1], found[2] or ""
    copied = COPY.match(name)
    if copied:
        return (copied[2], unquote(copied[3])), (bucket, unquote(copied[1]))
    name = unquote(name.removesuffix("/compose")) or head.query.get("name", "")
    return (bucket, name), None


def name_in_body(head, body):
    """The name in the metadata of an upload that has none in its query."""
    if head.query.get("uploadType") == "multipart":
        kind = head.headers.get("content-type", "")
        boundary = re.search(r"boundary=[\"']?([^\"';]+)", kind)
        first = body.split(b"--" + boundary[1].encode())[1] if boundary else b""
        body = first.partition(b"\r\n\r\n")[2].strip()
    try:
        return json.loads(body).get("name", "")
    except ValueError:
        return ""


class Strict:
    def __init__(self, connect):
        self._connect = connect  # a new connection to the emulator
        self._uploads = {}
        # A condition and the change that it guards are one step.
        self.lock = asyncio.Lock()

    async def refusal(self, head, wire):
        """The answer to a request that Google would refuse; nothing if it may pass."""
        upload = self._uploads.get(head.query.get("upload_id"))
        if upload:
            return await self._upload_refusal(head, upload)
        body = plain_body(head, wire)
        if head.query.get("uploadType") == "media" and not self._has_its_sum(head, body):
            return answer("400 Bad Request", b'{"error": {"code": 400, "message": "bad checksum"}}')
        return await self._failed(head, self._conditions(head, body))

    def note(self, head, wire, reply, reply_body):
        """Keeps the state of resumable uploads."""
        started = re.search(r"upload_id=([^&]+)", reply.headers.get("location", ""))
        if started:
            body = plain_body(head, wire)
            self._uploads[unquote(started[1])] = Upload(self._conditions(head, body))
        upload = self._uploads.get(head.query.get("upload_id"))
        if not upload or upload.final:
            return
        if reply.status == 308:
            last = reply.headers.get("range", "bytes=0--1").rpartition("0-")[2]
            upload.received = int(last) + 1
        elif reply.status < 300:
            upload.final = reply.raw + reply_body

    async def _upload_refusal(self, head, upload):
        about = head.headers.get("content-range", "")
        if upload.final:  # a repeated last part, or a question about it
            return upload.final
        if about.startswith("bytes */") and head.length == 0:  # the emulator would end the upload
            done = [("Range", f"bytes=0-{upload.received - 1}")] if upload.received else []
            return answer("308 Resume Incomplete", headers=done)
        begins = re.match(r"bytes (\d+)-", about)
        if begins and int(begins[1]) > upload.received:
            return answer("503 Service Unavailable", b"a part is missing")
        ends = not about or re.search(r"/\d+$", about)
        return await self._failed(head, upload.conditions) if ends else None

    @staticmethod
    def _has_its_sum(head, body):
        given = re.search(r"crc32c=([^,\s]+)", head.headers.get("x-goog-hash", ""))
        right = base64.b64encode(google_crc32c.Checksum(body).digest()).decode()
        return not given or given[1] == right

    @staticmethod
    def _conditions(head, body):
        """The preconditions of a request: (bucket, name, generation, whether it must match)."""
        target, source = objects_of(head)
        if target and not target[1] and head.method == "POST":
            target = (target[0], name_in_body(head, body))
        found = []
        for key, value in head.query.items():
            if key in PRECONDITIONS and target and target[1]:
                found.append((*target, value, PRECONDITIONS[key]))
            elif key in SOURCE_PRECONDITIONS and source:
                found.append((*source, value, SOURCE_PRECONDITIONS[key]))
        return found

    async def _failed(self, head, conditions):
        for bucket, name, value, must_match in conditions:
            if (await self._generation(bucket, name) == value) != must_match:
                unchanged = not must_match and head.method in ("GET", "HEAD")
                status = "304 Not Modified" if unchanged else "412 Precondition Failed"
                return answer(status, head_only=head.method == "HEAD")
        return None

    async def _generation(self, bucket, name):
        """The generation of an object as text; "0" if there is none."""
        reader, writer = await self._connect()
        try:
            path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = await read_head(reader)
            wire = b"".join([block async for block in blocks(reader, head)])
            if head.status != 200:
                return "0"
            return str(json.loads(plain_body(head, wire))["generation"])
        finally:
            writer.close()
