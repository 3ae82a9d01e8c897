"""Write the OpenAPI description: `python -m slotwise.service.routes > docs/openapi.json`."""

from __future__ import annotations

import json
import sys

from slotwise.service.openapi import openapi_document
from slotwise.service.routes import OPERATIONS

if __name__ == "__main__":
    json.dump(openapi_document(OPERATIONS), sys.stdout, indent=1)
    sys.stdout.write("\n")
