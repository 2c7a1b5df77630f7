"""Remove secrets, logins, private folders and user names from texts, in linear time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

MASK = "…"
"""Replaces what is left out."""

_TOKEN = re.compile(
    r"(?<![A-Za-z])(?:"
    r"gh[a-z]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{16,}|nvapi-[\w-]{16,}|dckr_pat_[\w-]{16,}|dapi[0-9a-f]{32}|gsk_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|GOCSPX-[\w-]{16,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|(?P<unsure>sk-[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]*)*)"
    r")"
)
"""Tokens with the prefixes of their issuers: GitHub, GitLab, Hugging Face, npm, PyPI, NVIDIA, Docker, Databricks …"""
_BEGINNINGS = (
    "gh", "github_pat_", "glpat-", "hf_", "npm_", "pypi-", "nvapi-", "dckr_", "dapi", "gsk_", "r8_", "k_live_",
    "k_test_", "AKIA", "ASIA", "AIza", "ya29.", "GOCSPX-", "xox", "xapp-", "SG.", "sk-", "eyJ",
)  # fmt: skip
"""Every token contains one of these, and few texts do: a fast pre-check."""
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
_BEARER = re.compile(r"(\bbearer\s{1,4})[\w.~+/=-]{8,}", re.IGNORECASE)
_WORDS = ("token", "secret", "passw", "passphrase", "credential", "authorization", "key")
_NAMED = re.compile(
    r"(?P<name>(?P<strong>passw(?:or)?d|passphrase|secret|credential|authorization"
    r"|(?:api|access|private|account|auth)[-_]?key|(?:auth|access|api|hf|bearer)[-_]?token)[\w-]{0,20}"
    r"|token|(?<![A-Za-z])key)"
    r"(?P<between>['\"]?\s{0,2}(?:=(?!=)|:(?!:))\s{0,2}(?:(?:basic|bearer)\s)?)"
    r"(?P<value>'[^'\n]{1,500}'?|\"[^\"\n]{1,500}\"?|[^\s'\",;(){}\[\]<>&|]+)",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(?<![\w-])(--?[\w-]{0,30}(?:token|secret|passw(?:or)?d|passphrase|credentials?|key)\s{1,4})(?:'[^'\n]{1,500}'?|[^\s'-]\S*)",
    re.IGNORECASE,
)
_WANDB = re.compile(r"(\bwandb[^\n]{0,40}?)\b[0-9a-f]{40}\b", re.IGNORECASE)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^\s/@'\"<>]{1,256}@[\w.:-]*")
_LOGIN = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]+(?:\.[\w-]+)*")
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?![\w(\[])")
"""In code, `a@b.T` is a matrix product."""
_MIXED = re.compile(r"(?=\D{0,200}\d)(?=[^A-Za-z]{0,200}[A-Za-z])[\w+/=-]{8,}")

_LONG_KEY = 16
"""A shorter value of `key=` is no secret, such as `key=uint32_t`."""

_PART = r"[^\s/\\:;,()'\"<>|*?=&{}\[\]`]+"
_PATH = re.compile(rf"(?:(?<!\w)[A-Za-z]:|~)?(?<![/\\])(?:[/\\]+{_PART})+[/\\]*")
_RELATIVE = re.compile(r"[\w)\].*]")
"""A character before a slash that does not start a path: `a/b`, `x[i]/y`, `1./dx`, `../c`."""
_AFTER_SLASHES = re.compile("//[^/]")
_SHARE = re.compile(r"\\\\[^\\]+\\[^\\]+\\[^\\]")
"""A network share: `\\\\host\\share\\file`."""
_HOME = re.compile(r"(?:[A-Za-z]:)?[/\\]+(?:root|(?:home|Users)[/\\]+[^/\\]+)[/\\]*", re.IGNORECASE)
_WINDOWS_HOME = re.compile(r"[A-Za-z]:[/\\]{1,4}Users[/\\]{1,4}([^/\\:*?\"<>|\r\n]{1,60})(?=[/\\])", re.IGNORECASE)
_OWNER = re.compile(rf"[/\\](?:home|Users)[/\\]{{1,4}}({_PART})", re.IGNORECASE)
_CACHE = re.compile(r"(torchinductor_)(\w+)")
_HOME_PARTS = frozenset({"home", "users"})
_SHORTEST_OWNER = 3
_DATA_ROOTS = frozenset({
    "root", "tmp", "var", "private", "scratch", "mnt", "media", "data", "datasets", "nfs", "gpfs", "lustre", "export",
    "net", "work", "workspace", "projects", "storage", "srv",
})  # fmt: skip
"""Where systems and clusters keep what belongs to users. A text alone does not tell `/data/x` from `/encoder/x`."""
_ORDINARY = frozenset({
    "app", "bool", "build", "char", "cub", "cuda", "cutlass", "data", "default", "dev", "double", "float", "gemm",
    "gpu", "half", "host", "int", "kernel", "local", "long", "main", "mark", "matrix", "max", "model", "node", "nvidia",
    "public", "python", "ray", "reduce", "sgemm", "shared", "short", "sum", "tensor", "test", "thrust", "torch",
    "train", "triton", "user", "void", "volta", "warp", "will", "work",
})  # fmt: skip
"""Names of folders below `home` that are words of kernels and their libraries. Nothing in a session tells that `data`
is no person; without this list `triton_poi_0` of a container with such a folder would be shown as `user_poi_0`."""


class KnownPaths(NamedTuple):
    """What the paths of a session reveal: user names, and the first folders of its files."""

    owners: re.Pattern[str] | None = None
    roots: frozenset[str] = frozenset()

    @classmethod
    def by(cls, texts: Collection[str]) -> KnownPaths:
        """Collect what these texts reveal."""
        return cls(_owner_pattern(texts), _roots(texts))


NOTHING_KNOWN = KnownPaths()


def clean_text(text: str, known: KnownPaths = NOTHING_KNOWN) -> str:
    """Return a text without tokens, logins, private folders and the names of `known` owners.

    Paths below a home folder, below usual folders for data and below `known` roots are shortened to their last part.
    Other slashes stay, as in `a/b`, and so do paths of what is installed and what is only named like a path, as layers
    of a network are: `/encoder/layer.0/MatMul`.
    """
    return _cleaned(text, known, code=False)


def clean_code(text: str, known: KnownPaths = NOTHING_KNOWN) -> str:
    """Clean a line of source code, where fewer things that look like secrets are."""
    return _cleaned(text, known, code=True)


def without_tokens(text: str) -> str:
    """Return a text without tokens and private keys."""
    if any(map(text.__contains__, _BEGINNINGS)):
        text = _TOKEN.sub(_masked_token, text)
    return _PRIVATE_KEY.sub(MASK, text) if "PRIVATE KEY" in text else text


def without_home(text: str) -> str:
    """Replace Windows home folders, whose names can contain spaces, with `~`."""
    return _WINDOWS_HOME.sub("~", text)


def last_part(path: str) -> str:
    """Return the last part of a POSIX or Windows path; `~` for a home folder. `./app` stays."""
    parts = _parts(path)
    if parts[:-1] == ["."]:
        return path
    if _HOME.fullmatch(path) or not parts:
        return "~" if parts else path
    return parts[-1]


def is_in_home(path: str) -> bool:
    """Return whether a path is below a home folder."""
    return any(part.lower() in _HOME_PARTS or part == "~" for part in _parts(path)[:-1])


def _cleaned(text: str, known: KnownPaths, *, code: bool) -> str:
    text = without_tokens(text)
    lower = text.lower()
    if any(map(lower.__contains__, _WORDS)):
        text = _NAMED.sub(_masked_in_code if code else _masked_value, text)
        text = text if code else _OPTION.sub(rf"\1{MASK}", text)
    if "bearer" in lower:
        text = _BEARER.sub(rf"\1{MASK}", text)
    if "wandb" in lower:
        text = _WANDB.sub(rf"\1{MASK}", text)
    if "@" in text:
        text = _LOGIN_IN_URL.sub(MASK, text)
        text = (_EMAIL if code else _LOGIN).sub(MASK, text)
    if "/" in text or "\\" in text:
        text = _PATH.sub(lambda match: _shortened(match, known.roots), without_home(text))
    if "torchinductor_" in text:
        text = _CACHE.sub(r"\1user", text)
    return known.owners.sub("user", text) if known.owners is not None else text


def _masked_token(match: re.Match[str]) -> str:
    """Mask a token. Kernel names can also start with `sk-` and hashes with `eyJ`; a token is long and mixed."""
    unsure = match["unsure"]
    if unsure is None:
        return MASK
    if unsure.startswith("eyJ"):
        return MASK if "." in unsure or len(unsure) > 40 else unsure
    is_mixed = unsure != unsure.lower() and any(char.isdigit() for char in unsure)
    return MASK if is_mixed or _RUN.search(unsure) is not None else unsure


def _masked_value(match: re.Match[str]) -> str:
    """Mask the value of a secret's name. Counts of tokens and ordinary keys stay."""
    name, value, separator = match["name"], match["value"], match["between"]
    if match["strong"] is None:
        if "=" not in separator or value.isdigit():
            return match[0]
        if name.lower() == "key" and (len(value) < _LONG_KEY or _MIXED.fullmatch(value.strip("'\"")) is None):
            return match[0]
    return f"{name}{separator}{_masked_quotes(value)}"


def _masked_in_code(match: re.Match[str]) -> str:
    """Mask a value in code only if it is a quoted text or mixes letters and digits."""
    value = match["value"]
    is_text = value[0] in "'\"" and len(value) > 4 and (match["strong"] is not None or _MIXED.fullmatch(value[1:-1]))
    is_mixed = match["strong"] is not None and match["between"].strip() in "=:" and _MIXED.fullmatch(value)
    if not is_text and not is_mixed:
        return match[0]
    return f"{match['name']}{match['between']}{_masked_quotes(value)}"


def _masked_quotes(value: str) -> str:
    quote = value[0] if value[0] in "'\"" else ""
    return f"{quote}{MASK}{quote if value.endswith(quote) and len(value) > 1 else ''}"


def _roots(texts: Iterable[str]) -> frozenset[str]:
    """Return the first folders of the absolute paths in texts."""
    paths = (match[0] for text in texts for match in _PATH.finditer(text) if match[0].startswith("/"))
    return frozenset(parts[0] for parts in map(_parts, paths) if len(parts) > 1)


def _owner_pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for the user names that folders in texts reveal; None if there are none.

    Names of fewer than three characters and ordinary words of code are left alone.
    """
    texts = list(texts)
    names = {name for text in texts for pattern in (_OWNER, _WINDOWS_HOME) for name in pattern.findall(text)}
    names |= {name for text in texts for _, name in _CACHE.findall(text)}
    owners = [
        re.escape(name)
        for name in sorted(names, key=len, reverse=True)
        if len(name) >= _SHORTEST_OWNER and name.lower() not in _ORDINARY
    ]
    if not owners:
        return None
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(owners)})(?![^\W_])", re.IGNORECASE)


def _shortened(match: re.Match[str], roots: Collection[str]) -> str:
    """Shorten a private path in a text; the `//` of a comment stays."""
    path, before = match[0], match.string[match.start() - 1 : match.start()]
    parts = _parts(path)
    if any(part.lower() in _HOME_PARTS for part in parts[:-1]):
        return last_part(path)
    if not _is_absolute(path, parts, before):
        return path
    if path[0] == "/" and parts[0] not in roots and parts[0].lower() not in _DATA_ROOTS:
        return path
    return f"//{parts[-1]}" if _AFTER_SLASHES.match(path) else parts[-1]


def _is_absolute(path: str, parts: list[str], before: str) -> bool:
    """Return whether a match is an absolute path rather than a URL or escapes such as `"x:\\t%d\\n"`."""
    if _RELATIVE.match(before) or (before == ":" and _AFTER_SLASHES.match(path)):
        return False
    if path[0] == "/":
        return len(parts) > 1
    if path[0] == "\\":
        return _SHARE.match(path) is not None
    return len(parts) > 2 and not ("\\" in path and "%" in path)


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part]
