"""The first bucket and object of an S3 server: a server answers seconds before it can store."""

import asyncio
import json

from processes import Missing

BUCKET = "cairn"
REGION = "us-east-1"
ADMIN = ("cairnadmin", "cairnadminsecret")  # may do everything
READER = ("cairnreader", "cairnreadersecret")  # may list and read


def client(endpoint, keys=ADMIN, **options):
    try:
        import botocore.config
        import botocore.session
    except ImportError as error:
        raise Missing(f"{error}; run make venv") from error
    config = botocore.config.Config(
        connect_timeout=2,
        read_timeout=20,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"},
        proxies={},
    )
    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        config=config,
        **options,
    )


async def store_first(processes, endpoint):
    """Makes the bucket and stores an object, until the server does both."""
    s3 = client(endpoint)

    def put():
        try:
            if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
                s3.create_bucket(Bucket=BUCKET)
            s3.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
            s3.delete_object(Bucket=BUCKET, Key="ready")
            return True
        except Exception:  # whatever a server says that starts
            return False

    await processes.until(lambda: asyncio.to_thread(put), "stored object")
    return s3


def policy_for_reader():
    """Lets the reader of radosgw list and read the bucket, which belongs to the administrator."""
    bucket = f"arn:aws:s3:::{BUCKET}"
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": [f"arn:aws:iam:::user/{READER[0]}"]},
                    "Action": ["s3:GetObject", "s3:ListBucket"],
                    "Resource": [bucket, f"{bucket}/*"],
                }
            ],
        }
    )
