"""Every form of each secret of a JSON list, as programs write it: a JSON list of lists."""
import base64, html, json, shlex, sys, urllib.parse

def forms(secret):
    raw = secret.encode()
    yield secret
    for text in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), ascii(secret), repr(raw)[1:]):
        yield text[1:-1]
    yield json.dumps(json.dumps(secret))[3:-3]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")
    for text in (urllib.parse.quote(secret), urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)):
        yield text
        yield text.lower() if secret.islower() else text
    yield html.escape(secret)
    # What base64 is the secret's alone: of its inner bytes.
    for before in (b"", b"u", b"u:"):
        digits = base64.b64encode(before + raw + b"....").decode()
        first, last = -(-8 * len(before) // 6), 8 * (len(before) + len(raw)) // 6
        yield digits[first:last]
        yield digits[first:last].replace("+", "-").replace("/", "_")

print(json.dumps([sorted(set(forms(secret))) for secret in json.load(sys.stdin)]))
