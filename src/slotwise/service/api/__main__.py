"""Write the OpenAPI description: `python -m slotwise.service.api > docs/openapi.json`."""

from __future__ import annotations

import json
import sys

from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.http.openapi import openapi_document


def main() -> None:
    """Write the description to standard output."""
    json.dump(openapi_document(ALL_OPERATIONS), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
