"""Credentials in what a launch printed: none of a hundred shapes stays in a redacted output, and
healthy texts lose nothing.

Every key is composed when the test runs: no literal in this file looks like one."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from planted import Recording, healthy

from busbw.cli import main
from busbw.credentials import MASK, masked, secret_name
from busbw.errors import UsageError
from busbw.launch.env import parse_overrides

_RANDOM = random.Random(7)
_LETTERS = string.ascii_letters + string.digits


def key(length: int, alphabet: str = _LETTERS) -> str:
    """A random key with a digit, a capital and a small letter where the alphabet has them."""
    fixed = [_RANDOM.choice([c for c in alphabet if c in part] or alphabet) for part in _KINDS]
    return "".join(fixed) + "".join(_RANDOM.choices(alphabet, k=length - len(fixed)))


_KINDS = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
HEX = "0123456789abcdef"
PREFIXES = (
    ("ghp", "_", 36), ("gho", "_", 36), ("ghu", "_", 36), ("ghs", "_", 36), ("ghr", "_", 36),
    ("github", "_pat_", 82), ("glpat", "-", 20), ("gldt", "-", 20), ("glrt", "-", 20),
    ("glptt", "-", 40), ("xoxb", "-", 40), ("xoxp", "-", 40), ("xapp", "-1-", 40),
    ("hf", "_", 34), ("api_org", "_", 34), ("npm", "_", 36), ("pypi", "-AgEI", 60),
    ("sk", "-ant-api03-", 93), ("sk", "-proj-", 74), ("sk", "_live_", 24), ("rk", "_live_", 24),
    ("AKIA", "", 16), ("ASIA", "", 16), ("AIza", "", 35), ("ya29", ".", 60), ("dop", "_v1_", 64),
    ("SG", ".", 66), ("shpat", "_", 32), ("dapi", "", 32), ("hvs", ".", 90), ("hvb", ".", 138),
    ("glc", "_", 40), ("glsa", "_", 41), ("pul", "-", 40), ("dckr", "_pat_", 27),
    ("nvapi", "-", 64), ("lin", "_api_", 40), ("pplx", "-", 48), ("gsk", "_", 48),
    ("AGE-SECRET-KEY", "-1", 58), ("sha256", "~", 43), ("tfp", "_", 59), ("LTAI", "", 20),
)  # fmt: skip
"""Beginnings of keys, by gitleaks' rules (config/gitleaks.toml of 2026-07-22) and the makers'
documents; the rest of each key is composed."""
ASSIGNED = (
    "HF_TOKEN={}", "export WANDB_API_KEY={}", "AWS_SECRET_ACCESS_KEY={}", "PGPASSWORD={}",
    "MYSQL_PWD={}", "DB_PASS={}", "password: {}", "passwd = {}", 'password="{}"',
    '"client_secret": "{}"', '\\"auth_token\\": \\"{}\\"', "{{'api_key': '{}'}}",
    "secretAccessKey={}", "privateKey: {}", "encryption_key={}", "AccountKey={};EndpointSuffix=x",
    "Server=db;User Id=sa;Password={};", "SharedAccessKey={}", "passphrase={}",
    "NGC_CLI_API_KEY={}", "credentials={}", "authToken={}", "_authToken={}",
    "SSHPASS={} sshpass -e ssh n1", "ROUTING_KEY={}", "password -> {}", "password: |\n    {}", "token: >-\n  {}",
    "password: |\n[1,0]<stderr>:    {}", "0: token: >-\n0:   {}",
    "LDAP_BIND_PW={}", "DOCKER_AUTH={}", "REDIS_AUTH={}", "SESSION_COOKIE={}", "SIGNING_KEY={}",
)  # fmt: skip
SENTENCES = (
    "Authorization: Bearer {}", "Authorization: Basic {}", "authorization: token {}",
    "PRIVATE-TOKEN: {}", "X-Api-Key: {}", "Cookie: session={}; theme=dark",
    "Set-Cookie: sid={}; HttpOnly", "curl -u admin:{} https://x.org", "curl --user admin:{} x.org",
    "sshpass -p {} ssh node1", "mysql -uroot -p{} db", "mpirun --api-token {} a.out",
    "tool --password {}", "tool --client-secret={}", "docker login -u ada -p {} nvcr.io",
    "redis-cli -a {} ping", "https://{}@git.example.org/x.git", "https://ada:{}@git.example.org/x",
    "postgres://ada:{}@db.example.org:5432/x", "https://x.org/a?access_token={}&b=1",
    "https://x.org/blob?sv=1&sig={}", "https://x.org/o?X-Amz-Signature={}",
    "https://hooks.slack.com/services/T0/B0/{}", "machine x.org login ada password {}",
    "db.example.org:5432:train:ada:{}", "root:$6$salt1234${}:19000:0:99999:7:::",
    "ipmitool -H bmc1 -U root -P {} power status", "ldapsearch -D cn=x -w {} -b dc=x", "wandb login {}",
    "snmpwalk -v2c -c {} sw1", "echo {} | sudo -S id", "echo '{}' | kinit ada", "kinit ada <<< {}",
    "echo {} | docker login -u ada --password-stdin", "enable secret 9 $9${}", "bindpw {}", "requirepass {}",
    ".x.org\tTRUE\t/\tTRUE\t0\tsession\t{}", "api.telegram.org/bot123456789:AA{}/send", "GOCSPX-{}",
    "mc alias set lab https://minio:9000 admin {}", "skopeo copy --src-creds ada:{} docker://a dir:b",
    "wandb.login(key='{}')", "requests.get(u, auth=('ada', '{}'))", "mongosh -u ada -p {} db",
    "tok={}", "tok: {}", "MUNGE:{}:", 'expect "assword:" {{ send "{}\\r" }}',
    "user,password\nada,{}", 'host;api_key;port\nn1;"{}";22',
    '"auths": {{"nvcr.io": {{"auth": "{}"}}}}', "the password is {}", "using token {} for node1",
)  # fmt: skip
"""Each with one key in it, `{}`."""


def _shapes() -> dict[str, tuple[str, str]]:
    """Name → a line as a failing launch prints it, and the part of it that must not travel."""
    shapes = {}
    for begin, joint, length in PREFIXES:
        rest = key(length)
        shapes[f"{begin}{joint}"] = (f"refused: {begin}{joint}{rest} is not valid", rest)
    for form in (*ASSIGNED, *SENTENCES):
        rest = key(24)
        shapes[form] = (f"[1,0]<stderr>: {form.format(rest)}", rest)
    head, claims, signature = (base64.b64encode(f'{{"{key(12)}":1}}'.encode()) for _ in range(3))
    token = b".".join((head, claims, signature)).decode().replace("=", "")
    rest = key(32, HEX)
    shapes["twilio"] = (f"unknown key SK{rest}", rest)
    shapes["web token"] = (f"got {token}", token.split(".")[1])
    body = "\n".join(key(64, _LETTERS + "+/") for _ in range(4))
    name = "PRIVATE" + " KEY"
    shapes["pem"] = (f"-----BEGIN {name}-----\n{body}\n-----END {name}-----", body.split("\n")[2])
    return shapes


SHAPES = _shapes()
HEALTHY = (
    "PWD=/home", "OLDPWD=/tmp", "NCCL_IB_PKEY=0", "UCX_IB_PKEY=0x7fff", "M_Key: 0x0000",
    "password authentication failed", "Permission denied (publickey,password).", "tokens: 4096",
    "unexpected token '}'", "Enter passphrase for key:", "token bucket is empty", "secret: none",
    "https://docs.nvidia.com/deeplearning/nccl", "http://node1:8080/metrics@2", "author: ada",
    "2159b97777cfa203a1f0c1e9a2b3c4d5e6f70819", "max_tokens=4096", "Basic configuration done",
    "--bind-to none --map-by ppr:8:node", "passed: 12", "tok: 1234567", "2048 tok/s",
    "PASS: all_reduce 0.0231 GB/s", "auth/munge: _print_cred: ENCODED: Wed Sep 22 01:11:11 2021",
    "user,password\nis asked for", "size,time,tokens\n8,12.5,4096", "name,token\nada,none", "password: |\nnext: 5", "keepalive: 5", "bypass=1",
    "compass: x",
    'trqauthd: munge_encode failed: Unable to access "/var/run/munge/munge.socket.2"',
    'failed to call webhook: Post "https://jobset-webhook-service.jobset-system.svc:443/validate?timeout=10s": dial tcp',
    "webhook-server: listening on port 9443", "WEBHOOK_TIMEOUT=10s", "srun: error: credential: signature invalid; node gpu-7",
    "authentication failed: Expired credential: check clocks", "Invalid credential: uid 0 of node3", "credentials: refresh failed for node gpu-7",
    "slurm_cred_verify: credential: Invalid job credential on node3", "password: incorrect for user train on gpu-7",
    "Kerberos: password: has expired",
)  # fmt: skip
STILL_MASKED = (
    "webhook: https://x.org/hook/{}, node3 is slow", "webhook_url=https://x.org:443/hook/{}", "credential: {} refused for node3",
    "password: check{}", "trqauth: {}", "WEBHOOK_ID=10{}",
)  # fmt: skip
SECRET_NAMES = (
    "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PGPASSWORD", "DB_PASS",
    "MYSQL_PWD", "REDIS_AUTH", "SESSION_COOKIE", "SIGNING_KEY", "SSH_KEY", "NGC_KEY", "GITHUB_PAT",
    "AZURE_SAS", "JWT", "SENTRY_DSN", "BEARER", "CLIENT_SECRET", "DB_CREDS", "LDAP_BIND_PW",
    "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "GPG_PASSPHRASE", "PASSWD", "APIKEY", "ACCESSKEY",
    "PRIVATEKEY", "DOCKER_AUTH_CONFIG", "NPM_AUTH", "HMAC", "OTP", "VAULT_UNSEAL", "KEYTAB",
    "HTPASSWD", "ENCRYPTION_KEYS", "COMET_KEY", "MLFLOW_TRACKING_PASSWORD", "S3_SECRET",
    "SSHPASS", "DBPASS", "secretKey", "accessToken", "dbPassword", "authKey",
)  # fmt: skip
PLAIN_NAMES = (
    "NCCL_DEBUG", "NCCL_IB_PKEY", "UCX_IB_PKEY", "NCCL_IB_HCA", "OMPI_MCA_btl", "PATH", "PWD",
    "UCX_KEEPALIVE_INTERVAL", "NCCL_TESTS_SPLIT", "FI_PROVIDER", "OMP_NUM_THREADS", "HOME",
    "CUDA_VISIBLE_DEVICES", "NCCL_PASSIVE", "TOKENIZERS_PARALLELISM", "MONKEY", "AUTHOR", "SPATH", "NCCL_BYPASS",
)  # fmt: skip


def failing(lines: str) -> Recording:
    """The healthy run in which one launch failed and printed these lines."""
    recording = healthy()
    recording.files["cases/all-reduce/stderr.txt"] = f"NCCL failure\n{lines}\n".encode()
    recording.outcome("all-reduce", stderr="raw/cases/all-reduce/stderr.txt", exit_status=1)
    return recording


def outputs(recording: Recording, folder: Path) -> str:
    """Everything that `report --redact` writes and prints, as one text."""
    run = recording.written(folder / "runs").path
    copies = [folder / name for name in ("junit.xml", "busbw.prom", "rows.csv")]
    options = [
        f"--{name}={path}" for name, path in zip(("junit", "prom", "csv"), copies, strict=True)
    ]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(["report", str(run), "--redact", *options])
        main(["report", str(run), "--redact", "--json"])
    written = [path.read_text() for path in (*(run / "redacted").iterdir(), *copies)]
    return "\n".join((*written, printed.getvalue()))


def test_a_hundred_shapes_of_credentials_leave_no_output_with_one(tmp_path: Path) -> None:
    assert len(SHAPES) >= 100
    text = outputs(failing("\n".join(line for line, _ in SHAPES.values())), tmp_path)
    assert text.count("refused") > 40, "the launch's lines are in the outputs"
    assert text.count(MASK) > 100
    assert [name for name, (_, rest) in SHAPES.items() if rest in text] == []


@pytest.mark.parametrize("name", SHAPES)
def test_a_credential_is_masked_wherever_the_text_was_cut(name: str) -> None:
    line, rest = SHAPES[name]
    assert rest not in masked(line)
    if "@" in line or "echo" in line:
        # User information before its @ is the beginning of a host's name, and of a word that is
        # piped only what it is piped into says that it is a password.
        return
    assert rest[:12] not in masked(line[: line.index(rest) + 12])


@pytest.mark.parametrize("text", STILL_MASKED)
def test_a_secret_beside_words_of_a_failure_is_masked(text: str) -> None:
    value = key(20)
    assert value not in masked(text.format(value))


@pytest.mark.parametrize("text", HEALTHY)
def test_a_healthy_line_keeps_every_word(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_variable_with_a_secret_name_is_refused_and_its_value_not_repeated(name: str) -> None:
    value = key(20)
    assert secret_name(name)
    with pytest.raises(UsageError) as refused:
        parse_overrides([f"{name}={value}"])
    assert value not in f"{refused.value} {refused.value.seen} {refused.value.next_step}"


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_variable_with_a_plain_name_is_taken(name: str) -> None:
    assert parse_overrides([f"{name}=1"]) == ((name, "1"),)


def test_a_value_that_looks_like_a_credential_is_refused_under_any_name() -> None:
    for name in ("ghp_", "https://{}@git.example.org/x.git"):
        line, rest = SHAPES[name]
        with pytest.raises(UsageError) as refused:
            parse_overrides([f"NCCL_X={line.split(': ', 1)[1]}"])
        assert rest not in str(refused.value)


def test_a_variable_of_a_plan_from_elsewhere_is_masked_in_every_redacted_output(
    tmp_path: Path,
) -> None:
    recording, value = healthy(), key(20)
    for path in [path for path in recording.files if path.endswith("/outcome.json")]:
        record = json.loads(recording.text(path))
        added = {"name": "WANDB_KEY", "value": value, "origin": "--env", "why": "", "source": ""}
        record["invocation"]["env"].append(added)
        record["invocation"]["argv"] += ["-x", f"WANDB_KEY={value}", "--api-key", value]
        recording.files[path] = json.dumps(record).encode()
    text = outputs(recording, tmp_path)
    assert "WANDB_KEY" in text
    assert value not in text


def _healthy_texts() -> list[Path]:
    """What real tools printed, of the fixtures and, where they are at hand, the corpora."""
    tests = Path(__file__).parents[1]
    places = [tests / "fixtures", *sorted((tests.parents[1] / "shared").glob("corpus*"))]
    files = (path for place in places for path in sorted(place.rglob("*")) if path.is_file())
    # Its texts are composed, and some hold what looks like credentials.
    return [path for path in files if path.parent.name != "composed_jobs"]


def test_no_word_of_a_healthy_text_is_taken_for_a_credential() -> None:
    false = [
        (path.name, line)
        for path in _healthy_texts()
        for line in path.read_bytes().decode("utf-8", "replace").splitlines()
        # iperf3 calls the number of a session a cookie: masking it takes nothing that a reader needs.
        if masked(line) != line and '"cookie"' not in line
    ]
    assert false == []


_DEAR: tuple[Callable[[str], str], ...] = (
    lambda piece: piece * 20_000,
    lambda piece: f"{piece} " * 20_000,
)


@pytest.mark.parametrize("grown", _DEAR)
@pytest.mark.parametrize(
    "piece", ["a", "token", "://", "a:", "-----BEGIN ", "eyA", "=", '"', "\\", "$6$"]
)
def test_a_long_line_is_masked_in_time_that_grows_with_it(
    piece: str, grown: Callable[[str], str]
) -> None:
    assert masked(grown(piece)) is not None
