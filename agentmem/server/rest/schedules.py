"""Schedules over HTTP."""

from __future__ import annotations

from agentmem.memory.schedules import Schedules
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("schedules", "schedules")
router.verb("POST /schedules", Schedules.add, "add_schedule", missed=str, every=float | None)
router.verb("GET /schedules", Schedules.list, "list_schedules")
router.verb("GET /schedules/{name}", Schedules.get, "get_schedule")
router.verb("POST /schedules/{name}/pause", Schedules.pause, "pause_schedule")
router.verb("POST /schedules/{name}/resume", Schedules.resume, "resume_schedule")
router.verb("DELETE /schedules/{name}", Schedules.remove, "remove_schedule")
