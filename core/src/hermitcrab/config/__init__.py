"""config.yaml: read, checked, and turned into attrs classes.

Importing this package is cheap: YAML and cattrs are loaded when a configuration is read.
"""

from __future__ import annotations

from hermitcrab.config.agents import AgentSettings, agent_settings, default_agent_id
from hermitcrab.config.load import config_from, load_config, resolve_home, section_from
from hermitcrab.config.names import camel_case, snake_case
from hermitcrab.config.plain import get_value, to_plain
from hermitcrab.config.reference import key_table, schema_json
from hermitcrab.config.schema import Config
from hermitcrab.config.units import parse_duration_ms, parse_size

__all__ = [
    "AgentSettings",
    "Config",
    "agent_settings",
    "camel_case",
    "config_from",
    "default_agent_id",
    "get_value",
    "key_table",
    "load_config",
    "parse_duration_ms",
    "parse_size",
    "resolve_home",
    "schema_json",
    "section_from",
    "snake_case",
    "to_plain",
]
