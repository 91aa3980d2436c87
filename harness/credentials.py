"""What a credential looks like in text: keys by their makers' prefixes, values of names that mean a
secret, user information in addresses, private keys.

The prefixes are facts of gitleaks' rules (config/gitleaks.toml of 2026-07-22,
https://github.com/gitleaks/gitleaks) and of the makers' documents. A text may have been cut
anywhere: the beginning of a key counts as the key.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

MASK = "[masked]"

_STRONG = (
    r"TOKEN(?!S|IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API[_-]?KEY|PRIVATE[_-]?KEY"
    r"|ACCESS[_-]?KEY|ACCOUNT[_-]?KEY|WEBHOOK(?!_TIMEOUT|[a-z.-]*:\d{1,5}/)|KEYTAB|UNSEAL|(?:SSH|DB|ROOT|SQL|LDAP|SMTP|FTP|SUDO|ADMIN)PASS(?![A-Z])"
)
"""Mean a secret anywhere in a name."""
_WORDS = frozenset(
    [
        "PASS",
        "PWD",
        "PW",
        "KEY",
        "KEYS",
        "AUTH",
        "PAT",
        "SAS",
        "JWT",
        "DSN",
        "COOKIE",
        "COOKIES",
        "BEARER",
        "CRED",
        "CREDS",
        "HMAC",
        "OTP",
    ]
)
"""Mean a secret as one word of a name."""
_PLAIN = frozenset({"PWD", "OLDPWD"})
_STRONG_NAME = re.compile(_STRONG, re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_PREFIXES = (
    "gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|cbt|ft|soat|agent|oas|imt|ffct)-|xox[abeoprs]-|xapp-"
    "|hf_|api_org_|npm_|pypi-|sk-(?!ssh|ecdsa)|[sr]k_(?:live|test|prod)_|do[opr]_v1_|SG\\.|shp(?:at|ca|pa|ss)_|"
    "hv[bs]\\.|glc_|glsa_|pul-|dckr_[po]at_|nvapi-|lin_api_|pplx-|gsk_|AGE-SECRET-KEY-|sha256~|tfp_"
    "|ya29\\.|ops_ey|EZ[AT]K|HRKU-|PMAK-|NR(?:AK|II|JS)-|pscale_(?:tkn|oauth|pw)_|rubygems_|sgp_"
    "|shippo_|sm_[aps]at_|sntry[su]_|squ_|sqp_|sqa_|rdme_|ntn_|dp\\.pt\\.|dt0c01\\.|fio-u-|pnu_"
    "|GOCSPX-|tskey-|tgp_v1_|figd_|xai-|r8_(?=\\w{30})|xkeysib-|sq0atp-|duffel_(?:test|live)_|FLWSECK_TEST-|tk-us-|p8e-|b3BlbnNzaC1rZXkt"
)
_KEYS = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?:(?:{_PREFIXES})[\w.+/=~-]{{6,}}"
    r"|(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AIza|LTAI|AKCp|ABSK|dapi)(?=[A-Za-z]*\d)[\w-]{8,})"
)
_BOT = re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{10,}")
"""Of Telegram: number and key."""
_TWILIO = re.compile(r"(?<![A-Za-z0-9])SK[0-9a-f]{10,32}(?![A-Za-z0-9])")
"""The id of an API key; its secret has no form of its own."""
_MUNGE = re.compile(r"\bMUNGE:[A-Za-z0-9+/=]{12,}:?")
"""A credential of munge(7): good for its lifetime, five minutes where nobody changed it."""
_WEB_TOKEN = re.compile(r"(?<![A-Za-z0-9_.-])ey[A-Za-z0-9_-]{8,}(?:\.[\w/+=-]{2,}){1,4}")
_PRIVATE = re.compile(
    r"-----BEGIN[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s:,\\-]|<[^<>\n]{1,40}>|\[\d+,\d+\])*"
)
_BODY = re.compile(r"(?m)^(?=[^\n]{0,63}[G-Zg-z+/])[A-Za-z0-9+/]{64}$")
"""A line of a private key that lost its head."""
_HASH = re.compile(r"\$(?:[156789y]|2[abxy]|apr1|argon2\w{1,2}|scrypt)\$[./A-Za-z0-9$=,+-]{8,}")
_ADDRESS = re.compile(
    r"(?P<label>\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://)"
    r"(?P<value>[^\s/\"'<>@]{0,300}@|[^\s/:\"'<>]{1,100}:(?!\d+/)[^\s\"'<>@]{1,300}@)"
)
_QUERY = re.compile(
    r"(?i)(?P<label>[?&;](?:X-Amz-|X-Goog-)?(?:[a-z_-]{0,20}token|sig|signature|key|api_?key|auth"
    r"|password|secret|credential|code)=)(?P<value>[^&\s\"'<>]+)"
)
_HOOK = re.compile(
    r"(?P<label>hooks\.slack\.com/|\.webhook\.office\.com/|discord(?:app)?\.com/api/webhooks/)"
    r"(?P<value>[^\s\"'<>]+)"
)
_VALUE = r"(?P<value>\\*\"[^\"\n]{0,2000}|\\*'[^'\n]{0,2000}|[^\s\"'\\<>\[(][^\s\"'<>]*)"
_FAILURE = (
    r"(?!(?:munge_(?:en|de)code|post|get|put|patch|invalid|expired|incorrect|rejected|replayed|refresh|signature|check|uid|listening"
    r"|has|is|was|could|cannot)[ \t]+[\"'\w])"
)
"""A word of a failure with another behind it: a message about the secret, as `credential: signature invalid`."""
_ASSIGNED = re.compile(
    rf"(?i)(?!(?-i:PASS: ))(?P<label>(?:{_STRONG}|(?<![a-z])(?:DB_?|BIND_?|USER_?|MYSQL_)?(?:PASS|PWD|PW|DSN|JWT)(?![a-z])"
    r"|(?:_|-|[a-z])AUTH(?!OR|_VERIFY|_FAIL|_ERR)|\bAUTH(?=\W{0,4}[=:]\s?\\*[\"'])|COOKIE|_CREDS?(?![a-z]|_verify)"
    r"|(?:ENCRYPTION|SIGNING|MASTER|SSH|SECRET|SERVICE|CLIENT|DEPLOY|SHARED|LICENSE|WANDB|COMET|ROUTING"
    r"|NGC|AUTH)[_-]?KEYS?|SharedAccess(?:Key|Signature)|tls\.key)"
    r"[\w.-]{0,30}\\*[\"']?[ \t]{0,3}(?:=>|->|:=|=|:)[ \t]{0,3}(?:[|>][+-]?\s{0,9}\n(?:(?:\[\d+,\d+\]<\w+>|\d{1,6}):?)?[ \t]{1,40})?)"
    + _FAILURE
    + _VALUE
)
_HEADER = re.compile(
    r"(?i)(?P<label>\b(?:(?:proxy-)?authorization|private-token|x-[a-z-]{0,20}(?:key|token)"
    r"|(?:set-)?cookie)\\*[\"']?\s{0,3}[:=][ \t]{0,3}\\*[\"']?)(?P<value>[^\r\n\"'<>]{2,})"
)
_BEARER = re.compile(r"(?P<label>\b[Bb]earer\s{1,3})(?P<value>(?=[^\s\d]*\d)[\w=~@.+/-]{8,})")
_OPTION = re.compile(
    r"(?i)(?P<label>(?<!\S)--?[a-z-]{0,20}(?:token|password|passwd|passphrase|secret|creds|api-?key"
    r"|private-key|access-key|credential)[a-z-]{0,10}[ \t]+)(?P<value>[^\s-]\S*)"
)
_PROGRAM = re.compile(
    r"(?P<label>\bsshpass\s+-p ?|\bmysql\w*\b[^\n|;]{0,80}?\s-p|\bredis-cli\b[^\n|;]{0,80}?\s-a\s+"
    r"|\b(?:docker|podman|nerdctl|helm)\b[^\n|;]{0,80}?\s-p\s+"
    r"|\bipmitool\b[^\n|;]{0,80}?\s-P\s*|\bldap\w+\b[^\n|;]{0,120}?\s-w\s+|\bsnmp\w+\b[^\n|;]{0,80}?\s-[cAX]\s+"
    r"|\bwandb login\s+(?:--relogin\s+)?|\bmongo\w*\b[^\n|;]{0,80}?\s-p\s+|\bmc alias set(?:\s+\S{1,200}){3}\s+"
    r"|\buser login\s+\S{1,60}\s+|\b(?:bindpw|requirepass|masterauth|rootpw)\s+|\bkinit\b[^\n|;]{0,80}?<<<\s*"
    r"|\blogin\(\s*(?:key|token)=|\bauth=\(\s*[\"'][^\"'\n]{0,100}[\"'],\s*|(?<!\S)(?:-u|--user|--proxy-user)[ =]?[^\s:]{1,60}:)(?P<value>\S+)"
)
_PIPED = re.compile(
    r"(?P<label>\becho\s+(?:-n\s+)?)(?P<value>[^\s|]{1,200})(?=\s*\|\s*(?:sudo\s+(?:-\w+\s+){0,3}-\w*S|kinit|passwd"
    r"|chpasswd|[^\n|;]{1,100}-stdin))"
)
_COOKIE_JAR = re.compile(
    r"(?P<label>\t(?:TRUE|FALSE)\t/[^\t\n]{0,200}\t(?:TRUE|FALSE)\t\d{1,12}\t[^\t\n]{1,100}\t)(?P<value>\S+)"
)
_NETRC = re.compile(r"(?P<label>\blogin\s+\S{1,80}\s+password\s+)(?P<value>\S+)")
_PGPASS = re.compile(
    r"(?m)(?P<label>[\w.-]{1,80}:(?:\d{4,5}|\*):[\w*]{1,40}:\w{1,40}:)(?P<value>[^\s:]{8,})$"
)
_SHORT_NAME = re.compile(
    r"(?i)(?P<label>(?<![a-z0-9])tok[\"']?\s{0,3}[=:]\s{0,3})"
    r"(?P<value>[\"']?(?=[^\s\d]{0,40}\d)(?=[^\sa-z]{0,40}[a-z])[\w.~+/=-]{8,})"
)
_SENT = re.compile(
    r"(?i)(?P<label>\bexpect\b[^\n]{0,80}(?:assw|passphrase|token|secret)[^\n]{0,40}\s{1,20}"
    r"send(?:line)?\s+(?:--\s+)?)(?P<value>\"[^\"\n\\]{1,200}|'[^'\n\\]{1,200}|\{[^}\n\\]{1,200})"
)
"""What a script of expect(1) answers to the question for a secret."""
_SENTENCE = re.compile(
    r"(?i)(?P<label>\b(?:token|password|passphrase|secret|api key)\s{1,3}(?:is |was |of )?[\"']?)"
    r"(?P<value>(?=[^\s\d]{0,40}\d)(?=[^\sa-z]{0,40}[a-z])(?!0x)[\w.~+/=-]{8,})"
)
_PATTERNS = (
    _PRIVATE, _BODY, _HEADER, _ADDRESS, _HOOK, _QUERY, _ASSIGNED, _OPTION, _PROGRAM, _PIPED, _COOKIE_JAR, _NETRC, _PGPASS,
    _BEARER, _SENTENCE, _SHORT_NAME, _SENT, _WEB_TOKEN, _KEYS, _BOT, _TWILIO, _MUNGE, _HASH,
)  # fmt: skip
_HEAD = re.compile(r"[\"']?[A-Za-z][\w.-]{0,40}[\"']?")
_TAG = re.compile(r"\[\d{1,6},\d{1,6}\](?:<\w{1,10}>)?:? ?|\d{1,6}: ")
"""What mpirun and srun put before a rank's line."""
_LONGEST_HEAD = 2000
"""Characters of a line that names columns."""
_NO_SECRET = re.compile(
    r"(?i)\\*[\"']?(?:\Z|\[masked\]|[*x.]+\Z|none\b|null\b|true\b|false\b|yes\b|no\b|on\b|off\b"
    r"|(?-i:[A-Z]{3,20}:\Z)|unset\b|required\b|missing\b|n/a\b|not\b|(?:invalid|expired|failed|denied|rejected)\W?\Z|\$|/|~/|\{|%|[-+]?(?:0x)?0*\d{0,3}\W*\Z)"
)
"""A switch, a placeholder, the path of a file, a small number: it says nothing."""


def secret_name(name: str) -> bool:
    """The name of a variable or option that means a secret.

    >>> secret_name("HF_TOKEN"), secret_name("NCCL_IB_PKEY"), secret_name("MYSQL_PWD")
    (True, False, True)
    """
    if name in _PLAIN:
        return False
    words = {word.upper() for word in _WORD.findall(name)}
    return bool(_STRONG_NAME.search(name) or words & _WORDS)


def masked(text: str) -> str:
    """The text with every credential replaced by a mark.

    >>> masked("HF_TOKEN=abcdef123456 was refused by https://ada:pw@git.example.org")
    'HF_TOKEN=[masked] was refused by https://[masked]@git.example.org'
    """
    for begin, end in reversed(tuple(_columns(text))):
        text = f"{text[:begin]}{MASK}{text[end:]}"
    for pattern in _PATTERNS:
        text = pattern.sub(_mask, text)
    return text


def _columns(text: str) -> Iterator[tuple[int, int]]:
    """Where values stand below a column whose name means a secret, in a table of CSV."""
    place, mark, columns, width = 0, "", frozenset[int](), 0
    for line in text.split("\n"):
        tag = _TAG.match(line)
        spoken = line[tag.end() :] if tag else line
        begin, place = place + len(line) - len(spoken), place + len(line) + 1
        if columns:
            cells = spoken.split(mark)
            cut = place > len(text) and 1 < len(cells) < width
            if len(cells) == width or cut:
                starts = itertools.accumulate((len(cell) + 1 for cell in cells), initial=begin)
                yield from (
                    (start, start + len(cell.rstrip("\r")))
                    for column, (start, cell) in enumerate(zip(starts, cells, strict=False))
                    if column in columns and not _NO_SECRET.match(cell)
                )
                continue
        columns = frozenset()
        if len(spoken) > _LONGEST_HEAD or not _STRONG_NAME.search(spoken):
            continue
        mark = next((mark for mark in ",;\t" if mark in spoken), "")
        names = spoken.rstrip("\r").split(mark) if mark else []
        if names and all(_HEAD.fullmatch(name) for name in names):
            width = len(names)
            columns = frozenset(n for n, name in enumerate(names) if _STRONG_NAME.search(name))


def credentials(text: str) -> frozenset[str]:
    """What `masked` takes out of the text, each without its quotes.

    >>> sorted(credentials("HF_TOKEN=abcdef123456 and password: 'none'"))
    ['abcdef123456']
    """
    values = {text[begin:end].strip("\"'") for begin, end in _columns(text)}
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            value = match.groupdict().get("value", match[0])
            if not _NO_SECRET.match(value):
                values.add(value.strip("\\\"'@,;"))
    return frozenset(values - {"", MASK})


def _mask(match: re.Match[str]) -> str:
    value = match.groupdict().get("value")
    if value is None:
        return MASK
    if _NO_SECRET.match(value):
        return match[0]
    behind = "@" if match.re is _ADDRESS else ""
    quote = re.match(r"\\*[\"']?", value)
    return f"{match['label']}{quote[0] if quote else ''}{MASK}{behind}"
