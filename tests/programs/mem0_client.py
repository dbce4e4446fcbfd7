"""What mem0's own client makes of a server. It runs in an environment that has that client, and prints what it saw.

`python mem0_client.py ADDRESS KEY ADMIN_KEY`: a key of Ann's, and one for all users.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mem0 import MemoryClient


def main(address: str, key: str, admin_key: str) -> None:
    """Call what the client offers for memories; an error ends the program."""
    client, admin = MemoryClient(api_key=key, host=address), MemoryClient(api_key=admin_key, host=address)
    ann: dict[str, Any] = {"user_id": "ann"}
    added = client.add([{"role": "user", "content": "I moved to Lisbon. I play the cello."}], **ann)
    kept = client.add([{"role": "user", "content": "The spare key is under the pot."}], infer=False, **ann)
    admin.add([{"role": "user", "content": "I live in Oslo."}], user_id="bob")
    memory_id = kept["results"][0]["id"]
    seen: dict[str, Any] = {
        "added": added["results"],
        "found": client.search("where does the user live?", filters=ann)["results"],
        "one": client.get(memory_id)["memory"],
        "all": client.get_all(filters=ann)["results"],
        "pages": [client.get_all(filters=ann, page=page, page_size=1)["results"] for page in (1, 2, 3, 4)],
        "users": client.users()["results"],
    }
    client.update(memory_id, text="The spare key is under the mat.")
    seen["updated"] = client.get(memory_id)["memory"]
    seen["history"] = client.history(memory_id)
    client.batch_update([{"memory_id": memory_id, "text": "The spare key is in the box."}])
    seen["batch"] = client.get(memory_id)["memory"]
    client.delete(memory_id)
    seen["left"] = client.get_all(filters=ann)["results"]
    client.batch_delete([{"memory_id": each["id"]} for each in seen["left"][:1]])
    seen["fewer"] = client.get_all(filters=ann)["results"]
    client.delete_all(user_id="ann")
    seen["none"] = client.get_all(filters=ann)["results"]
    seen["others"] = admin.get_all(filters={"user_id": "bob"})["results"]
    admin.delete_users(user_id="bob")
    seen["no_bob"] = admin.get_all(filters={"user_id": "bob"})["results"]
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
