"""Asks this container's own front end: `python3 -IS ask.py /ready` ends with 0 if it says 200."""

import http.client
import os
import ssl
import sys

port = int(os.environ.get("PGC_SERVE_PORT", "8443"))
plain = os.environ.get("PGC_SERVE_PLAIN_TEXT", "").lower() in ("true", "1")
if plain:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=8)
else:  # the certificate is for the name that devices know, not for this address
    unchecked = ssl._create_unverified_context()
    asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=8, context=unchecked)
try:
    asked.request("GET", sys.argv[1])
    answer = asked.getresponse()
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"no answer: {error}")
print(answer.status, answer.read(1000).decode())
sys.exit(0 if answer.status == 200 else 1)
