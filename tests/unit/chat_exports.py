"""Small exports of chat programs, by the shape of the real ones: a function or value for each."""

from __future__ import annotations

import json
from typing import Any


def chatgpt_node(key: str, parent: str | None, said: Any = None, **fields: Any) -> dict[str, Any]:
    """A node of ChatGPT's tree; `said` is the text, or the parts of what was said."""
    message = said and {
        "id": key,
        "author": {"role": fields.pop("role", "user"), "name": fields.pop("name", None)},
        "create_time": fields.pop("time", 1710000000.5),
        "content": {"content_type": "text", "parts": said if isinstance(said, list) else [said]},
        "metadata": {},
        "recipient": "all",
        **fields,
    }
    return {"id": key, "message": message, "parent": parent, "children": []}


def chatgpt(*nodes: dict[str, Any], current: str | None) -> list[dict[str, Any]]:
    """An export with one conversation."""
    return [
        {
            "title": "Bakery",
            "create_time": 1710000000.0,
            "mapping": {node["id"]: node for node in nodes},
            "current_node": current,
            "conversation_id": "c-1",
        }
    ]


CHATGPT = chatgpt(
    chatgpt_node("root", None),
    chatgpt_node("hidden", "root", "profile", metadata={"is_visually_hidden_from_conversation": True}),
    chatgpt_node("ask", "hidden", [{"content_type": "image_asset_pointer"}, "A slogan?"]),
    chatgpt_node("old", "ask", "Bread of yesterday", role="assistant", time=1710000009),
    chatgpt_node("note", "ask", "Has a bakery.\nLives in Turku.", role="assistant", recipient="bio"),
    chatgpt_node("noted", "note", "Model set context updated.", role="tool", name="bio"),
    chatgpt_node("new", "noted", "Warm from the oven", role="assistant", time=None),
    current="new",
)
CLAUDE: list[dict[str, Any]] = [
    {
        "uuid": "k-1",
        "name": "Trip",
        "account": {"uuid": "acc-1"},
        "chat_messages": [
            {
                "uuid": "m-1",
                "sender": "human",
                "text": "What do I pack?",
                "content": [],
                "created_at": "2025-03-01T10:00:00.25+02:00",
                "attachments": [{"file_name": "list.txt", "extracted_content": "The red tent."}],
                "files": [{"file_name": "map.png"}],
            },
            {
                "uuid": "m-2",
                "sender": "assistant",
                "text": "This block is not supported.",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Turku"}},
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "Rain"}]},
                    {"type": "text", "text": "A coat."},
                    {"type": "token_budget"},
                ],
                "created_at": "2025-03-01T08:01:00Z",
            },
            {"uuid": "m-3", "sender": "human", "text": "", "content": [], "created_at": "2025-03-01T08:02:00Z"},
        ],
    }
]
CLAUDE_MEMORIES = [
    {
        "conversations_memory": "**Work**\n\nBakes bread.\n\n# Home\n\nHas a dog.",
        "project_memories": {"p-1": "The site is in Rust."},
        "account_uuid": "acc-1",
    }
]
CLAUDE_PROJECTS = [{"uuid": "p-1", "name": "Site", "prompt_template": "", "docs": []}]


def activity(title: str, time: str, *html: str, **fields: Any) -> dict[str, Any]:
    """An activity of Takeout."""
    answers = {"safeHtmlItem": [{"html": each} for each in html]} if html else {}
    return {"header": "Gemini Apps", "title": title, "time": time, "products": ["Gemini Apps"], **answers, **fields}


GEMINI = [
    activity("Prompted And at sea?", "2025-05-02T09:00:00.000Z", "<p>Salt &amp; wind.</p>"),
    activity("Gave feedback: Good response", "2025-05-02T08:30:00.000Z"),
    activity(
        "Eingegebener Prompt: Warum Regen?",
        "2025-05-02T08:00:00.000Z",
        "<p>Two <b>reasons</b>:</p><ul><li>clouds</li><li>cold</li></ul><style>p {}</style>",
        attachedFiles=["sky.png"],
    ),
    activity("Prompted Hello", "2025-05-01T08:00:00.000Z"),
]
AI_STUDIO = {
    "runSettings": {"model": "models/gemini"},
    "systemInstruction": {},
    "chunkedPrompt": {
        "chunks": [
            {"driveImage": {"id": "1"}, "role": "user"},
            {"text": "What is this?", "role": "user", "tokenCount": 4},
            {"text": "let me think", "role": "model", "isThought": True},
            {"text": "A heron.", "role": "model", "createTime": "2025-05-01T08:00:00Z"},
        ]
    },
}


def entry(uuid: str, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a session of Claude Code."""
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "s-1",
        "timestamp": "2025-06-01T10:00:00.000Z",
        "message": {"role": kind, "content": content},
        **fields,
    }


CLAUDE_CODE = [
    {"type": "summary", "summary": "Tests", "leafUuid": "a-1"},
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    entry("u-1", "user", "Run the tests"),
    entry("a-0", "assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}]),
    entry("a-1", "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]),
    entry("u-2", "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "3 passed"}], toolUseResult={}),
    entry("u-3", "user", "hidden", isMeta=True),
    entry("u-4", "user", "a search", isSidechain=True),
    entry("u-5", "user", "<command-name>/clear</command-name>"),
    entry("u-6", "user", "This session goes on from …", isCompactSummary=True),
]
ANDROID = """\
12/31/23, 9:15\u202fPM - Messages and calls are end-to-end encrypted.
12/31/23, 9:15\u202fPM - Ana Maria: Are you coming?
I have <3 cake. <This message was edited>

12/31/23, 9:15\u202fPM - Ben: ok
12/31/23, 9:15\u202fPM - Ben: ok
1/1/24, 12:05\u202fAM - Ben: <Media omitted>
1/1/24, 12:06\u202fAM - Ben: IMG-1.jpg (file attached)
So sweet
1/1/24, 12:07\u202fAM - Ana Maria: This message was deleted
1/1/24, 12:08\u202fAM - Ana Maria added Cleo
"""
IOS = """\
[03.12.23, 21:15:03] Kuchen: \u200eNachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.
[03.12.23, 21:15:04] ~\u202fJörg: Kommst du um 9? \u200e<Diese Nachricht wurde bearbeitet>
\u200e[04.12.23, 08:00:00] Ana: \u200eBild weggelassen
\u200e[04.12.23, 08:00:01] Ana: \u200e<Anhang: 0001-PHOTO.jpg>
"""


def telegram_message(number: int, text: Any, **fields: Any) -> dict[str, Any]:
    """A message of Telegram."""
    return {
        "id": number,
        "type": "message",
        "date": "2024-02-01T12:00:00",
        "date_unixtime": "1706785200",
        "from": "Ana",
        "from_id": "user7",
        "text": text,
        **fields,
    }


TELEGRAM: dict[str, Any] = {
    "name": "Ana",
    "type": "personal_chat",
    "id": 77,
    "messages": [
        {"id": 1, "type": "service", "date": "2024-02-01T11:00:00", "action": "phone_call", "text": ""},
        telegram_message(2, ["See ", {"type": "bold", "text": "this"}, "!"], forwarded_from="Cleo"),
        telegram_message(3, "", media_type="voice_message", file="v.ogg", reply_to_message_id=2),
        telegram_message(4, "Look", photo="p.jpg", **{"from": None}),
        telegram_message(5, ""),
    ],
}
TELEGRAM_ACCOUNT = {
    "about": "Here is the data you requested.",
    "personal_information": {"user_id": 1, "first_name": "Bo"},
    "chats": {"about": "", "list": [TELEGRAM, {**TELEGRAM, "id": 78, "type": "private_group"}]},
}


def librechat_message(key: str, parent: str, text: str, minute: int, **fields: Any) -> dict[str, Any]:
    """A message of LibreChat."""
    return {
        "messageId": key,
        "parentMessageId": parent,
        "conversationId": "lc-1",
        "text": text,
        "isCreatedByUser": key.startswith("u"),
        "createdAt": f"2025-01-01T10:{minute:02}:00.000Z",
        **fields,
    }


_PARTS = [
    {"type": "think", "think": "hm"},
    {"type": "tool_call", "tool_call": {"id": "t", "name": "search", "args": '{"q": "tea"}', "output": "Assam"}},
    {"type": "text", "text": "Assam, then."},
]
LIBRECHAT_LIST = [
    librechat_message("u1", "00000000-0000-0000-0000-000000000000", "Which tea?", 0, files=[{"filename": "a.pdf"}]),
    librechat_message("a1", "u1", "Green.", 1),
    librechat_message("a2", "u1", "", 2, content=_PARTS),
]
LIBRECHAT = {"conversationId": "lc-1", "title": "Tea", "recursive": False, "messages": LIBRECHAT_LIST}
LIBRECHAT_TREE = {
    "conversationId": "lc-1",
    "recursive": True,
    "messagesTree": [{**LIBRECHAT_LIST[0], "children": LIBRECHAT_LIST[1:]}],
}
OPEN_WEBUI = [
    {
        "id": "ow-1",
        "user_id": "bo",
        "title": "Tea",
        "chat": {
            "history": {
                "currentId": "a2",
                "messages": {
                    "u1": {"id": "u1", "parentId": None, "role": "user", "content": "Tea?", "timestamp": 1706785200},
                    "a1": {"id": "a1", "parentId": "u1", "role": "assistant", "content": "No", "timestamp": 1706785260},
                    "a2": {
                        "id": "a2",
                        "parentId": "u1",
                        "role": "assistant",
                        "content": '<details type="reasoning" done="true">\nhm\n</details>\n'
                        '<details id="1" type="tool_calls" name="web" result="&gt;">\nx</details>\nYes',
                        "files": [{"type": "image", "url": "/x"}],
                        "timestamp": 1706785230,
                    },
                },
            }
        },
    }
]

EXPORTS: dict[str, tuple[str, str]] = {  # the format and the text of each
    "conversations-000.json": ("chatgpt", json.dumps(CHATGPT)),
    "conversations.json": ("claude", json.dumps(CLAUDE)),
    "memories.json": ("claude", json.dumps(CLAUDE_MEMORIES)),
    "projects.json": ("claude", json.dumps(CLAUDE_PROJECTS)),
    "MyActivity.json": ("gemini", json.dumps(GEMINI)),
    "Heron": ("gemini", json.dumps(AI_STUDIO)),
    "s-1.jsonl": ("claude_code", "\n".join(map(json.dumps, CLAUDE_CODE))),
    "WhatsApp Chat with Ana.txt": ("whatsapp", ANDROID),
    "_chat.txt": ("whatsapp", IOS),
    "result.json": ("telegram", json.dumps(TELEGRAM, indent=1)),
    "line.json": ("telegram", json.dumps(TELEGRAM)),
    "account.json": ("telegram", json.dumps(TELEGRAM_ACCOUNT, indent=1)),
    "tea.json": ("librechat", json.dumps(LIBRECHAT, indent=1)),
    "tree.json": ("librechat", json.dumps(LIBRECHAT_TREE)),
    "chat-export.json": ("open_webui", json.dumps(OPEN_WEBUI)),
}

_CHATGPT_NODES = chatgpt_node("a", None, "Hi", time="noon"), chatgpt_node("b", "a", "There")
_CLAUDE_MESSAGES = [{"uuid": "m", "sender": "cat", "text": "Hi"}, CLAUDE[0]["chat_messages"][0]]
_LIBRECHAT_MESSAGES = [librechat_message("u1", "", "Hi", 99), librechat_message("a1", "u1", "There", 0)]
WRONG: dict[str, Any] = {  # files with one wrong message, by what the error names
    "mapping.a: create_time": chatgpt(*_CHATGPT_NODES, current="b"),
    "chat_messages[0]: role": [{**CLAUDE[0], "chat_messages": _CLAUDE_MESSAGES}],
    "messages[0]: text": {**TELEGRAM, "messages": [telegram_message(1, 5), telegram_message(2, "Hi")]},
    "messages[0]: createdAt": {**LIBRECHAT, "messages": _LIBRECHAT_MESSAGES},
    "[1]: time": [*GEMINI[:1], activity("Prompted Hm", "noon")],
    "2: time is no time": "31/12/23, 10:00 - Ana: Hi\n31/31/23, 10:00 - Ana: Hm\n",
}
