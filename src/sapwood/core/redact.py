"""Known shapes of credentials in a text -> `[redacted:<rule>]`, in linear time.

Each rule has a few literal words that must occur before its expression is tried, so ordinary text costs almost
nothing. Expressions have no unbounded part that another part must follow: none can be made to backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# No text without one of these holds anything that a rule knows; most text stops here.
_CANDIDATE: Final = re.compile(r"[A-Za-z0-9_+/=.%~$-]{12}|://|PRIVATE")


@dataclass(frozen=True, slots=True)
class Rule:
    """A shape of credential; only its group `secret` is replaced, where it has one."""

    name: str
    words: tuple[str, ...]
    text: str
    is_secret: Callable[[str], bool] | None = None


def redact(text: str) -> str:
    """Return `text` with every credential of a known shape replaced by the name of the rule that knew it."""
    if _CANDIDATE.search(text) is None:
        return text
    folded = text.lower()
    done = None
    for word, rule in BY_WORD:
        if word in folded and rule is not done:
            done = rule
            text = _compiled(rule.text).sub(lambda found, rule=rule: _replacement(found, rule), text)  # type: ignore[misc]
    return text


@cache  # compiled when it is first needed: an import should not pay for rules that no text asks for
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _replacement(found: re.Match[str], rule: Rule) -> str:
    whole = found[0]
    group = "secret" if "secret" in found.re.groupindex else 0
    secret = found[group]
    if rule.is_secret is not None and not rule.is_secret(secret):
        return whole
    start, end = (place - found.start() for place in found.span(group))
    return f"{whole[:start]}[redacted:{rule.name}]{whole[end:]}"


def _looks_random(value: str) -> bool:
    """Tell a token from a word or an identifier: digits among letters, or upper case among lower case and long."""
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    is_mixed = value != value.lower() and value != value.upper() and len(value) >= 24
    return letters >= 2 and (digits >= 2 or is_mixed)


def _is_assigned_secret(value: str) -> bool:
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    return letters >= 3 and digits >= 3 and len(set(value)) >= 8 and not _UUID.fullmatch(value)


def _is_password(value: str) -> bool:
    has_both = any(character.isdigit() for character in value) and any(character.isalpha() for character in value)
    return has_both and not value.startswith(("{", "$", "%", "<", "(", "*"))


def _rule(name: str, words: str, pattern: str, is_secret: Callable[[str], bool] | None = None) -> Rule:
    return Rule(name, tuple(words.split()), pattern, is_secret)


_ALONE = r"(?<![A-Za-z0-9])"  # does not start inside a word
_END = r"(?![A-Za-z0-9])"
_HEADER_GAP = r"[\"']?(?:[ \t]{0,4}|%20)[:=](?:[ \t]{0,4}|%20)[\"']?"

_PEM_KIND = r"[A-Z0-9 /_+.%-]{1,40}?PRIVATE[ /_+.%0-9-]{1,4}KEY(?:[ /_+.%0-9-]{1,4}BLOCK)?"  # in a path, too

RULES: Final = (
    _rule(
        "private-key",
        "private",
        rf"(?s)-----BEGIN{_PEM_KIND}-----(?=.{{0,200}}?[A-Za-z0-9+/]{{24}}).*?(?:-----END{_PEM_KIND}-----|\Z)",
    ),
    _rule("putty-key", "private-mac private-lines", r"(?s)Private-Lines: [0-9].*?(?:Private-MAC: [0-9a-f]{20,}|\Z)"),
    _rule("age-key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Za-z0-9]{40,}"),
    _rule(
        "aws-access-key",
        "akia asia abia acca agpa aida aroa anpa anva aipa",
        r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA)[A-Z0-9]{16}(?![A-Z0-9])",
    ),
    _rule(
        "aws-secret",
        "aws secretaccesskey secret_access_key",
        r"(?i)(?:aws[a-z0-9_. -]{0,20}(?:secret|key)|secret_?access_?key)"
        r"[a-z0-9_. \"'-]{0,20}[:=]{1,2}>?[ \t]{0,4}[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40}={0,2})(?![A-Za-z0-9/+])",
        _looks_random,
    ),
    _rule(
        "aws-session-token",
        "fqogzxivyxd fwogzxivyxd iqojb3jpz2lu",
        r"(?:F[Qw]oGZXIvYXd|IQoJb3JpZ2lu)[A-Za-z0-9+/=]{30,}",
    ),
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALONE + r"gh[pousr]_[A-Za-z0-9]{20,}(?:_[A-Za-z0-9_.-]{30,})?"),
    _rule("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    _rule("github-token", "v1.", r"(?<![A-Za-z0-9.])v1\.[0-9a-f]{40}(?![A-Za-z0-9])"),
    _rule(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct- gr1348941",
        r"(?:gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct)-|GR1348941)[A-Za-z0-9_-]{20,}",
    ),
    _rule("bitbucket-token", "atbb atctt3", r"(?:ATBB|ATCTT3)[A-Za-z0-9_=-]{24,}"),
    _rule("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _rule("openrouter-key", "sk-or-", r"sk-or-(?:v[0-9]-)?[A-Za-z0-9]{20,}"),
    _rule("langfuse-key", "sk-lf-", r"sk-lf-[0-9a-f-]{30,}"),
    _rule(
        "openai-key",
        "sk-",
        _ALONE + r"sk-(?:(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})",
    ),
    _rule("google-api-key", "aiza", r"AIza[A-Za-z0-9_-]{30,}"),
    _rule("google-api-key", "aq.ab", _ALONE + r"AQ\.Ab[A-Za-z0-9_-]{30,}"),
    _rule(
        "google-oauth",
        "ya29. gocspx- 1//0",
        r"(?:ya29\.[A-Za-z0-9_.-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,})",
    ),
    _rule("slack-token", "xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    _rule("slack-token", "xapp-", r"xapp-[0-9]{1,2}-[A-Za-z0-9-]{20,}"),
    _rule(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,})",
    ),
    _rule("hugging-face-token", "hf_ api_org_", _ALONE + r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    _rule(
        "jwt",
        "eyj",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,8000}){0,3}",
    ),
    _rule("stripe-key", "_live_ _test_", _ALONE + r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}"),
    _rule("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/]{20,}={0,2}"),
    _rule("twilio-key", "sk ac", _ALONE + r"(?:SK|AC)[0-9a-f]{32}" + _END),
    _rule("sendgrid-key", "sg.", _ALONE + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}"),
    _rule("mailgun-key", "key-", r"(?<![A-Za-z0-9_-])key-[0-9a-zA-Z]{32}" + _END),
    _rule("mailchimp-key", "-us", r"(?<![0-9A-Za-z])[0-9a-f]{32}-us[0-9]{1,2}" + _END),
    _rule("npm-token", "npm_", _ALONE + r"npm_[A-Za-z0-9]{30,}"),
    _rule("pypi-token", "pypi-", r"pypi-[A-Za-z0-9_]{30}[A-Za-z0-9_-]{16,}"),
    _rule("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{40,}"),
    _rule("nuget-key", "oy2", _ALONE + r"oy2[a-z0-9]{43}" + _END),
    _rule("clojars-token", "clojars_", r"CLOJARS_[A-Za-z0-9]{50,}"),
    _rule("docker-token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    _rule("digitalocean-token", "_v1_", r"do[opr]_v1_[0-9a-f]{40,}"),
    _rule("shopify-token", "shp", r"shp(?:at|ca|pa|ss|tka|ua)_[0-9a-fA-F]{24,}"),
    _rule(
        "discord-token",
        ".",
        r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_.-])",
    ),
    _rule("discord-webhook", "/api/webhooks/", r"/api/webhooks/(?P<secret>[0-9]{15,21}/[A-Za-z0-9_-]{40,})"),
    _rule("telegram-token", ":aa", r"(?<![0-9A-Za-z])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    _rule("databricks-token", "dapi dkea", _ALONE + r"(?:dapi|dkea)[0-9a-f]{32}(?:-[0-9])?" + _END),
    _rule("linear-key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    _rule("notion-token", "ntn_ secret_", _ALONE + r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}" + _END + ")"),
    _rule("airtable-token", "pat", _ALONE + r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _rule("atlassian-token", "atatt3", r"ATATT3[A-Za-z0-9_=.-]{30,}"),
    _rule("doppler-token", "dp.", _ALONE + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}"),
    _rule("vault-token", "hvs. hvb. hvr.", _ALONE + r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    _rule("terraform-token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}"),
    _rule(
        "azure-key",
        "accountkey= sharedaccesskey=",
        r"(?i:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,}={0,2})",
    ),
    _rule("azure-sas", "sig=", r"(?<![A-Za-z0-9_])sig=(?P<secret>[A-Za-z0-9%+/]{40,}={0,2})"),
    _rule("azure-client-secret", "q~", r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,36}"),
    _rule("new-relic-key", "nrak- nrii- nrjs- nriq- nrsp-", r"NR(?:AK|II|JS|IQ|SP)-[A-Za-z0-9_-]{19,}"),
    _rule("grafana-token", "glsa_ glc_", _ALONE + r"gl(?:sa|c)_[A-Za-z0-9+/=_]{30,}"),
    _rule("sentry-token", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9+/=_]{30,}"),
    _rule("postman-key", "pmak-", r"PMAK-[0-9a-f]{20,}-[0-9a-f]{30,}"),
    _rule("figma-token", "figd_ figo_ figu_", _ALONE + r"fig[dou]r?_[A-Za-z0-9_-]{30,}"),
    _rule("square-token", "sq0", _ALONE + r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}"),
    _rule("meta-token", "eaa", r"(?<![A-Za-z0-9+/])EAA[A-Za-z0-9]{57,}(?![A-Za-z0-9+/=])"),
    _rule("paypal-token", "access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{10,}\$[0-9a-f]{20,}"),
    _rule("groq-key", "gsk_", _ALONE + r"gsk_[A-Za-z0-9]{30,}"),
    _rule("replicate-token", "r8_", _ALONE + r"r8_[A-Za-z0-9]{30,}"),
    _rule("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    _rule("xai-key", "xai-", _ALONE + r"xai-[A-Za-z0-9]{40,}"),
    _rule("together-key", "tgp_v1_", r"tgp_v1_[A-Za-z0-9_-]{30,}"),
    _rule("fireworks-key", "fw_", _ALONE + r"fw_[A-Za-z0-9]{22,26}(?![A-Za-z0-9_])", _looks_random),
    _rule("cerebras-key", "csk-", _ALONE + r"csk-[a-z0-9]{40,}"),
    _rule("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{40,}"),
    _rule("tavily-key", "tvly-", r"tvly-[A-Za-z0-9_-]{28,}", _looks_random),
    _rule("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{6,}"),
    _rule("pinecone-key", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,}"),
    _rule("supabase-key", "sbp_ sb_secret_", _ALONE + r"(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    _rule("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}"),
    _rule("prefect-key", "pnu_ pnb_", _ALONE + r"pn[ub]_[A-Za-z0-9]{30,}"),
    _rule("pulumi-token", "pul-", _ALONE + r"pul-[0-9a-f]{40}"),
    _rule("readme-key", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _rule("scaleway-key", "scw", r"(?<![A-Z0-9])SCW[A-Z0-9]{17}(?![A-Z0-9])"),
    _rule("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{20,}"),
    _rule("typeform-token", "tfp_", _ALONE + r"tfp_[A-Za-z0-9_.=-]{40,}"),
    _rule("heroku-key", "hrku-", r"HRKU-[A-Za-z0-9_-]{30,}"),
    _rule("cloudflare-key", "v1.0- cfut_ cfat_", r"(?:v1\.0-[0-9a-f]{24}-[0-9a-f]{140,}|cf[ua]t_[A-Za-z0-9_-]{40,})"),
    _rule("dropbox-token", "sl.", _ALONE + r"sl\.(?:u\.)?[A-Za-z0-9_-]{60,}"),
    _rule("netlify-token", "nfp_ nfc_ nfo_ nfu_", _ALONE + r"nf[pcou]_[A-Za-z0-9]{36,}"),
    _rule("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", _ALONE + r"vc[piark]_[A-Za-z0-9]{40,}"),
    _rule("circleci-token", "ccipat_ cciprj_", r"CCI(?:PAT|PRJ)_[A-Za-z0-9_]{30,}"),
    _rule("sonar-token", "sqp_ sqa_ squ_", _ALONE + r"sq[pau]_[0-9a-f]{40}"),
    _rule("sourcegraph-token", "sgp_", _ALONE + r"sgp_(?:[A-Za-z0-9]{6,}_)?[0-9a-f]{40}"),
    _rule("dynatrace-token", "dt0", _ALONE + r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _rule("hubspot-token", "pat-na pat-eu pat-ap", _ALONE + r"pat-(?:na|eu|ap)[0-9]-[0-9a-f-]{36}"),
    _rule("contentful-token", "cfpat-", r"CFPAT-[A-Za-z0-9_-]{40,}"),
    _rule("openshift-token", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    _rule("alibaba-key", "ltai", _ALONE + r"LTAI[A-Za-z0-9]{12,26}" + _END, _looks_random),
    _rule("tencent-key", "akid", _ALONE + r"AKID[A-Za-z0-9]{32}" + _END),
    _rule("yandex-key", "aqvn", _ALONE + r"AQVN[A-Za-z0-9_-]{35,}"),
    _rule("onepassword-token", "ops_eyj", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,2}"),
    _rule("easypost-key", "ezak eztk", _ALONE + r"EZ[AT]K[A-Za-z0-9]{50,}"),
    _rule("frameio-token", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{60,}"),
    _rule("infracost-key", "ico-", _ALONE + r"ico-[A-Za-z0-9]{32}" + _END, _looks_random),
    _rule("buildkite-token", "bkua_ bkaj_ bkct_", _ALONE + r"bk[a-z]{2}_[a-z0-9]{40}"),
    _rule(
        "bearer",
        "bearer",
        r"(?i:bearer)(?:[ \t]{1,4}|%20|\+)(?P<secret>[A-Za-z0-9._~+/-]{12,}={0,2})",
        _looks_random,
    ),
    _rule(
        "authorization",
        "authorization",
        r"(?<![A-Za-z])(?i:authorization)"
        + _HEADER_GAP
        + r"(?:(?i:basic|token|digest|apikey|key|negotiate)[ \t]{1,4})?"
        r"(?P<secret>[A-Za-z0-9._~+/-]{12,}={0,2})(?![\w(\[])",
        lambda value: value.endswith("=") or _looks_random(value),
    ),
    _rule(
        "url-password",
        "://",
        r"(?i)[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>?#]{0,100}:(?P<secret>[^\s/@\"'<>?#]{6,200})@",
        _is_password,
    ),
    _rule(
        "assigned-secret",
        "passw pwd secret apikey api_key api-key access_key accesskey access-key token credential auth_key private_key",
        r"(?<![A-Za-z:])(?:[A-Za-z]{1,16}[_-]){0,3}"
        r"(?i:passw(?:or)?d|passwd|pwd|secret|api[_-]?key|access[_-]?key|(?:access|auth|refresh|session|api|id)?_?token"
        r"|credentials?|auth_key|private_key)(?i:_?(?:key|id|value|hash))?"
        + _HEADER_GAP
        + r"(?P<secret>[A-Za-z0-9+/_~!@#$%^&*-]{16,}={0,2})(?![\w.(\[:])",
        _is_assigned_secret,
    ),
)

BY_WORD: Final = tuple((word, rule) for rule in RULES for word in rule.words)
