"""`agentmem keys`: made, listed and revoked; the secret is shown once."""

from __future__ import annotations

from tests.surfaces.conftest import Cli


def test_a_key_is_shown_once_listed_and_revoked(cli: Cli) -> None:
    made = cli.json(
        "keys", "create", "--user", "alice", "--scopes", "write,read", "--channel", "work", "--expires", "9d"
    )
    key = made["key"]
    assert (key["user_id"], key["scopes"], key["channel"]) == ("alice", ["read", "write"], "work")
    assert made["secret"].startswith("agentmem_")
    assert len(made["secret"]) > 40
    cli("keys", "create", "--user", "bob")
    listed = cli("keys", "list")
    assert listed.count("\n") == 2
    assert made["secret"] not in listed
    assert [each["user_id"] for each in cli.lines("keys", "list", "--user", "alice")] == ["alice"]
    assert "revoked" in cli("keys", "revoke", key["id"])
    assert [each["operation"] for each in cli.lines("audit", "--user", "alice")] == ["revoke_key", "create_key"]
    for file in cli.home.iterdir():
        assert made["secret"].encode() not in file.read_bytes()


def test_what_cannot_be_says_why(cli: Cli) -> None:
    wrong = {
        ("create", "--scopes", "read,fly"): "fly",
        ("create", "--user", "*"): "admin",
        ("create", "--expires", "2020-01-01"): "future",
        ("create", "--expires", "soon"): "soon",
        ("create", "x"): "unexpected extra argument",
        ("revoke",): "Missing argument 'ID'",
        ("revoke", "nobody"): "nobody",
    }
    for args, word in wrong.items():
        result = cli.run("keys", *args)
        assert result.exit_code == 2
        assert word in result.stderr
    assert cli("keys", "list") == "no keys\n"
