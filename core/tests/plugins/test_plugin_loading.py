"""Loading plugins: whole or not at all, and never at the cost of another one (sessions 7.5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import field, frozen

from hermitcrab.errors import PluginError
from hermitcrab.hooks import BeforePromptBuild, HookContext, PromptBuild, hookimpl
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.plugins.loading_context import plugin_being_loaded
from hermitcrab.plugins.records import Registration
from hermitcrab.plugins.registration import PluginRegistries


@hookimpl
def before_prompt_build(ctx: HookContext) -> PromptBuild:
    return PromptBuild(prepend_context=f"from {ctx.plugin_id}")


@hookimpl
def register_tools(registry: Any) -> None:
    registry.register("hammer", object)


def raising(error: BaseException) -> Any:
    def load() -> Any:
        raise error

    return load


def messages(host: Any, plugin_id: str) -> list[str]:
    return [each.message for each in host.diagnostics if each.plugin_id == plugin_id]


async def prompt_texts(host: Any) -> str | None:
    built = await HookDispatcher(host.implementations).fire(
        BeforePromptBuild(prompt="hi"), HookContext()
    )
    return built.prepend_context if built else None


async def test_a_plugin_registers_and_its_handlers_are_called(bench: Any) -> None:
    registries = PluginRegistries()
    host = bench.load(
        bench.entry_point("tools", bench.plugin(before_prompt_build, register_tools)),
        registries=registries,
    )
    record = host.records["tools"]
    assert (record.status, record.reason, record.kind) == ("loaded", "installed", "plugin")
    assert (record.distribution, record.version, record.core) == (
        "tools-distribution",
        "1.0",
        False,
    )
    assert record.hooks == ("before_prompt_build",)
    assert record.registrations == (Registration("tools", "hammer"),)
    assert registries.tools.find("hammer") is object
    assert registries.tools.owner_of("hammer") == "plugin:tools"
    assert await prompt_texts(host) == "from tools"
    assert host.diagnostics == ()


@pytest.mark.parametrize(
    "error", [ImportError("no module"), SyntaxError("bad"), SystemExit(2), RuntimeError("x")]
)
async def test_a_broken_plugin_is_reported_and_harms_nobody(
    bench: Any, error: BaseException
) -> None:
    """C100: one broken plugin made the whole program unusable."""
    host = bench.load(
        bench.entry_point("broken", loader=raising(error), version="3.2"),
        bench.entry_point("fine", bench.plugin(before_prompt_build)),
    )
    record = host.records["broken"]
    assert (record.status, record.phase) == ("error", "load")
    assert type(error).__name__ in (record.error or "")
    assert type(error).__name__ in (record.traceback_tail or "")
    assert record.entry_points == ("hermitcrab.plugins: broken = broken_module",)
    (diagnostic,) = [each for each in host.diagnostics if each.plugin_id == "broken"]
    assert "broken-distribution 3.2" in diagnostic.message
    assert "pip install --upgrade broken-distribution" in (diagnostic.hint or "")
    assert host.records["fine"].status == "loaded"
    assert await prompt_texts(host) == "from fine"


def test_an_interrupt_from_the_keyboard_is_not_swallowed(bench: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench.load(bench.entry_point("a", loader=raising(KeyboardInterrupt())))


async def test_a_plugin_that_fails_to_register_leaves_nothing_behind(bench: Any) -> None:
    """Sessions 7.5: an earlier version kept the hooks of a plugin whose registration failed."""
    undone = []

    @hookimpl
    def register_commands(registry: Any) -> None:
        registry.register("shout", object)
        loading = plugin_being_loaded.get()
        assert loading is not None
        loading.on_rollback(lambda: undone.append(loading.plugin_id))
        raise RuntimeError("broken on purpose")

    registries = PluginRegistries()
    broken = bench.plugin(before_prompt_build, register_tools, register_commands)
    host = bench.load(bench.entry_point("broken", broken), registries=registries)
    record = host.records["broken"]
    assert (record.status, record.phase) == ("error", "register")
    assert "broken on purpose" in (record.error or "")
    assert "register_commands" in (record.traceback_tail or "")
    assert record.registrations == ()
    assert registries.tools.ids() == []
    assert registries.commands.ids() == []
    assert undone == ["broken"]
    assert await prompt_texts(host) is None
    assert plugin_being_loaded.get() is None


def test_a_failed_plugin_does_not_undo_what_others_registered(bench: Any) -> None:
    @hookimpl(specname="register_tools")
    def register_and_fail(registry: Any) -> None:
        assert registry.register("hammer", int).ok is False
        registry.register("saw", int)
        raise RuntimeError("x")

    registries = PluginRegistries()
    bench.load(
        bench.entry_point("a", bench.plugin(register_tools)),
        bench.entry_point("b", bench.plugin(register_and_fail)),
        registries=registries,
    )
    assert registries.tools.ids() == ["hammer"]
    assert registries.tools.find("hammer") is object


def test_an_asynchronous_registration_is_an_error(bench: Any) -> None:
    """Sessions 7.5: it once was ignored with a warning, so that nothing was ever registered."""

    @hookimpl(specname="register_tools")
    async def register_later(registry: Any) -> None:
        registry.register("hammer", object)

    registries = PluginRegistries()
    host = bench.load(
        bench.entry_point("late", bench.plugin(register_later)), registries=registries
    )
    assert host.records["late"].status == "error"
    assert "register_tools must be synchronous" in (host.records["late"].error or "")
    assert registries.tools.ids() == []


def test_registration_is_over_when_the_hook_returns(bench: Any) -> None:
    kept = []

    @hookimpl(specname="register_tools")
    def keep(registry: Any) -> None:
        kept.append(registry)

    bench.load(bench.entry_point("late", bench.plugin(keep)))
    with pytest.raises(PluginError, match="too late"):
        kept[0].register("hammer", object)


async def test_a_misspelt_hook_is_named_and_the_rest_of_the_plugin_works(bench: Any) -> None:
    """Notes 9.2: pluggy accepts a misspelt name without a word."""

    @hookimpl
    def before_promt_build() -> None: ...

    host = bench.load(
        bench.entry_point("typo", bench.plugin(before_promt_build, before_prompt_build)),
        bench.entry_point("fine", bench.plugin(register_tools)),
    )
    (diagnostic,) = host.diagnostics
    assert (diagnostic.level, diagnostic.plugin_id) == ("warning", "typo")
    assert diagnostic.message == 'unknown hook "before_promt_build" ignored'
    assert diagnostic.hint == 'Did you mean "before_prompt_build"?'
    assert host.records["typo"].hooks == ("before_prompt_build",)
    assert await prompt_texts(host) == "from typo"


@hookimpl(specname="agent_end")
def takes_unknown_by_position(event: Any, context: Any) -> None: ...


@hookimpl(specname="agent_end")
def takes_unknown_by_keyword(event: Any, *, context: Any) -> None: ...


@pytest.mark.parametrize("handler", [takes_unknown_by_position, takes_unknown_by_keyword])
async def test_a_handler_with_an_unknown_parameter_refuses_the_whole_plugin(
    bench: Any, handler: Any
) -> None:
    """Notes 9.1: after a failed check pluggy kept calling the plugin's other hooks. C102: renamed arguments."""
    host = bench.load(bench.entry_point("old", bench.plugin(handler, before_prompt_build)))
    assert host.records["old"].phase == "register"
    assert "context" in (host.records["old"].error or "")
    assert await prompt_texts(host) is None


def test_options_and_keyword_only_parameters_reach_the_handler(bench: Any) -> None:
    class Plugin:
        @hookimpl(priority=7, blocking=True, timeout_ms=1234)
        def before_reset(self, *, event: Any) -> None: ...

        @staticmethod
        @hookimpl
        def agent_end(ctx: Any) -> None: ...

    host = bench.load(bench.entry_point("a", Plugin()))
    (handler,) = host.implementations.of("before_reset")
    assert (handler.priority, handler.blocking, handler.timeout_ms) == (7, True, 1234)
    assert handler.argnames == ("event",)
    assert host.implementations.of("agent_end")[0].argnames == ("ctx",)


def test_a_class_and_nothing_are_refused_as_plugins(bench: Any) -> None:
    class Plugin:
        @hookimpl
        def agent_end(self) -> None: ...

    host = bench.load(bench.entry_point("a", Plugin), bench.entry_point("b", None))
    assert host.records["a"].phase == "load"
    assert "the class Plugin" in (host.records["a"].error or "")
    assert "is None" in (host.records["b"].error or "")


def test_a_plugin_without_hooks_is_pointed_out(bench: Any) -> None:
    def agent_end() -> None: ...

    host = bench.load(bench.entry_point("a", bench.plugin(agent_end)))
    assert host.records["a"].status == "loaded"
    assert messages(host, "a") == ["it implements no hook"]


def test_one_id_in_several_groups_with_one_value_is_loaded_once(bench: Any) -> None:
    loaded = []

    def load() -> Any:
        loaded.append(1)
        return bench.plugin(before_prompt_build)

    groups = ("hermitcrab.plugins", "hermitcrab.memory", "hermitcrab.context_engines")
    host = bench.load(
        *(bench.entry_point("a", group=group, loader=load) for group in groups),
        config=bench.Config(slots=bench.Slots(memory="a", context_engine="a")),
    )
    assert loaded == [1]
    assert len(host.implementations.of("before_prompt_build")) == 1
    assert host.records["a"].status == "loaded"


def test_one_id_in_several_groups_with_several_values_loads_those_that_are_selected(
    bench: Any,
) -> None:
    points = [
        bench.entry_point("a", bench.plugin(before_prompt_build), value="a.hooks"),
        bench.entry_point(
            "a", bench.plugin(register_tools), group="hermitcrab.memory", value="a.memory"
        ),
    ]
    assert bench.load(*points).records["a"].registrations == ()
    config = bench.Config(slots=bench.Slots(memory="a"))
    record = bench.load(*points, config=config).records["a"]
    assert record.hooks == ("before_prompt_build",)
    assert record.registrations == (Registration("tools", "hammer"),)


def test_what_is_not_selected_is_never_imported(bench: Any) -> None:
    """C101: a plugin that is off costs nothing."""

    def explode() -> Any:
        raise AssertionError("imported")

    host = bench.load(
        bench.entry_point("memory-x", group="hermitcrab.memory", loader=explode),
        bench.entry_point("engine-x", group="hermitcrab.context_engines", loader=explode),
        bench.entry_point("export", group="hermitcrab.commands", loader=explode),
        bench.entry_point("off", loader=explode),
        config=bench.Config(entries={"off": bench.Entry(enabled=False)}),
    )
    statuses = {id: host.records[id].status for id in ("memory-x", "engine-x", "off")}
    assert set(statuses.values()) == {"disabled"}
    assert host.records["memory-x"].reason == "memory slot disabled"
    assert "export" not in host.records
    assert host.diagnostics == ()


@pytest.mark.parametrize(
    ("requirement", "remedy"),
    [
        ("hermitcrab>=2", "pip install --upgrade 'hermitcrab>=2'"),
        ("hermitcrab<0.5", "pip install --upgrade a-distribution"),
    ],
)
def test_a_plugin_for_another_host_is_refused_before_its_import(
    bench: Any, requirement: str, remedy: str
) -> None:
    """C102: a plugin written for another version failed in the middle of a turn."""
    imported = []
    host = bench.load(
        bench.entry_point("a", requires=[requirement], loader=lambda: imported.append(1)),
        host_version="1.0.0",
    )
    assert (host.records["a"].status, host.records["a"].phase) == ("error", "validation")
    (diagnostic,) = host.diagnostics
    assert requirement in diagnostic.message
    assert "1.0.0" in diagnostic.message
    assert remedy in (diagnostic.hint or "")
    assert imported == []


def test_a_pre_release_of_the_host_fits_its_own_line(bench: Any) -> None:
    point = bench.entry_point("a", bench.plugin(register_tools), requires=["hermitcrab>=1"])
    assert bench.load(point, host_version="1.1.0rc1").records["a"].status == "loaded"


@frozen(kw_only=True)
class Settings:
    max_items: int = 5
    label: str = field(default="x")


@pytest.fixture
def configured(bench: Any) -> Any:
    seen = []

    @hookimpl
    def config_class() -> type:
        return Settings

    @hookimpl(specname="register_tools")
    def note_config(registry: Any) -> None:
        seen.append((registry.plugin_config, registry.plugin_id, registry.logger.name))

    plugin = bench.plugin(config_class, note_config, before_prompt_build)

    def load(config: dict[str, Any]) -> Any:
        settings = bench.Config(entries={"a": bench.Entry(config=config)})
        return bench.load(bench.entry_point("a", plugin), config=settings), seen

    return load


def test_a_plugins_config_becomes_its_class_for_factories_and_handlers(configured: Any) -> None:
    host, seen = configured({"maxItems": 7})
    assert seen == [(Settings(max_items=7), "a", "hermitcrab.plugins.a")]
    assert host.plugin_config("a") == Settings(max_items=7)
    (handler,) = host.implementations.of("before_prompt_build")
    assert handler.plugin_config == Settings(max_items=7)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"maxItem": 7}, "plugins.entries.a.config.maxItem"),
        ({"maxItems": "many"}, "plugins.entries.a.config.maxItems"),
    ],
)
def test_a_wrong_plugin_config_refuses_the_plugin_and_names_the_key(
    configured: Any, config: dict[str, Any], path: str
) -> None:
    host, seen = configured(config)
    assert host.records["a"].phase == "validation"
    assert path in (host.records["a"].error or "")
    assert seen == []
    assert host.implementations.of("before_prompt_build") == ()


def test_without_a_config_class_the_plain_mapping_is_handed_on(bench: Any) -> None:
    config = bench.Config(entries={"a": bench.Entry(config={"anything": [1]})})
    host = bench.load(bench.entry_point("a", bench.plugin(before_prompt_build)), config=config)
    assert host.plugin_config("a") == {"anything": [1]}


def test_a_config_class_that_is_no_attrs_class_is_an_error_of_the_plugin(bench: Any) -> None:
    @hookimpl
    def config_class() -> type:
        return dict

    host = bench.load(bench.entry_point("a", bench.plugin(config_class)))
    assert "attrs class" in (host.records["a"].error or "")


def test_hooks_that_config_does_not_allow_are_not_used_and_named(bench: Any) -> None:
    @hookimpl
    def llm_input() -> None: ...

    @hookimpl
    def gateway_start() -> None: ...

    hooks = bench.Hooks(allow_prompt_injection=False, allow_conversation_access=False)
    host = bench.load(
        bench.entry_point("a", bench.plugin(before_prompt_build, llm_input, gateway_start)),
        config=bench.Config(entries={"a": bench.Entry(hooks=hooks)}),
    )
    assert host.records["a"].status == "loaded"
    assert host.records["a"].hooks == ("gateway_start",)
    text = " ".join(messages(host, "a"))
    assert "plugins.entries.a.hooks.allowPromptInjection" in text
    assert "plugins.entries.a.hooks.allowConversationAccess" in text


def test_timeouts_from_config_reach_the_handlers(bench: Any) -> None:
    hooks = bench.Hooks(timeout_ms=2, timeouts={"before_prompt_build": 1})
    host = bench.load(
        bench.entry_point("a", bench.plugin(before_prompt_build)),
        config=bench.Config(entries={"a": bench.Entry(hooks=hooks)}),
    )
    (handler,) = host.implementations.of("before_prompt_build")
    assert (handler.policy.timeout_ms, handler.policy.timeouts) == (2, {"before_prompt_build": 1})


def test_a_refused_registration_names_the_owner_and_undoes_nothing_else(bench: Any) -> None:
    results = []

    @hookimpl(specname="register_tools")
    def register_two(registry: Any) -> None:
        results.append(registry.register("hammer", int))
        results.append(registry.register("saw", int))

    registries = PluginRegistries()
    host = bench.load(
        bench.entry_point("a", bench.plugin(register_tools)),
        bench.entry_point("b", bench.plugin(register_two)),
        registries=registries,
    )
    assert [result.ok for result in results] == [False, True]
    assert results[0].existing_owner == "plugin:a"
    assert host.records["b"].status == "loaded"
    assert host.records["b"].registrations == (Registration("tools", "saw"),)
    (diagnostic,) = host.diagnostics
    assert (diagnostic.level, diagnostic.plugin_id) == ("error", "b")
    assert "plugin:a" in diagnostic.message


def test_plugins_given_in_code_are_loaded_last_and_cannot_take_an_id(bench: Any) -> None:
    given = bench.plugin(before_prompt_build)
    host = bench.load(
        bench.entry_point("a", bench.plugin(before_prompt_build)),
        extra_plugins=[("mine", given), ("a", SimpleNamespace())],
    )
    assert [each.plugin_id for each in host.implementations.of("before_prompt_build")] == [
        "a",
        "mine",
    ]
    assert host.records["mine"].reason == "enabled in config"
    assert messages(host, "a") == [
        "a plugin given in code has the id of another one, and is not loaded"
    ]


def test_refused_ids_have_a_record_that_says_so(bench: Any) -> None:
    host = bench.load(
        bench.entry_point("notes", distribution="alpha"),
        bench.entry_point("notes", distribution="beta"),
    )
    record = host.records["notes"]
    assert (record.status, record.phase) == ("error", "validation")
    assert "alpha and beta" in (record.error or "")


def test_plugins_that_are_equal_are_two_plugins_all_the_same(bench: Any) -> None:
    """pluggy tells plugins apart by equality, so the second of two equal instances was refused."""
    host = bench.load(
        bench.entry_point("a", bench.plugin(before_prompt_build)),
        bench.entry_point("b", bench.plugin(before_prompt_build)),
    )
    assert [each.plugin_id for each in host.implementations.of("before_prompt_build")] == ["a", "b"]


async def test_an_unloaded_plugin_is_gone_and_can_be_looked_up(bench: Any) -> None:
    registries = PluginRegistries()
    host = bench.load(
        bench.entry_point("a", bench.plugin(before_prompt_build, register_tools)),
        bench.entry_point("b", bench.plugin(before_prompt_build)),
        registries=registries,
    )
    host.unload("a")
    assert await prompt_texts(host) == "from b"
    assert registries.tools.ids() == []
    assert (host.records["a"].status, host.records["a"].reason) == ("disabled", "unloaded")
    with pytest.raises(PluginError, match="no such plugin"):
        host.unload("a")
    host.close()
    assert await prompt_texts(host) is None


def test_the_default_engine_stays_when_one_host_of_several_closes(bench: Any) -> None:
    registries = PluginRegistries()
    bench.load(registries=registries).close()
    assert registries.context_engines.find("legacy") is object


def slot_errors(host: Any) -> list[str]:
    return [str(each) for each in host.diagnostics if each.level == "error"]


def test_a_slot_that_names_nothing_installed_is_loud_and_helps(bench: Any) -> None:
    """C98: a missing engine was replaced by the default in silence."""
    host = bench.load(
        bench.entry_point("graph-engine", group="hermitcrab.context_engines"),
        config=bench.Config(
            slots=bench.Slots(context_engine="graf-engine", memory="memory-lancedb")
        ),
    )
    engine, memory = slot_errors(host)
    assert "plugins.slots.contextEngine names a plugin that is not installed" in engine
    assert 'Did you mean "graph-engine"?' in engine
    assert "pip install the distribution that provides it" in engine
    assert "pip install hermitcrab-memory-lancedb" in memory


def test_a_selected_plugin_that_registers_no_engine_is_loud(bench: Any) -> None:
    """C98, sessions 9.5: the plugin was loaded, the engine never registered, the default used in silence."""

    @hookimpl(specname="register_context_engines")
    def register_other(registry: Any) -> None:
        registry.register("other", object)

    host = bench.load(
        bench.entry_point(
            "graph", bench.plugin(register_other), group="hermitcrab.context_engines"
        ),
        config=bench.Config(slots=bench.Slots(context_engine="graph")),
    )
    (error,) = slot_errors(host)
    assert 'registered no context engine "graph" (it registered: other)' in error


def test_a_selected_plugin_that_is_off_or_of_another_kind_is_loud(bench: Any) -> None:
    host = bench.load(
        bench.entry_point("graph", group="hermitcrab.context_engines"),
        bench.entry_point("notes", bench.plugin(before_prompt_build)),
        config=bench.Config(
            slots=bench.Slots(context_engine="graph", memory="notes"), deny=("graph",)
        ),
    )
    engine, memory = slot_errors(host)
    assert "is off: blocked by denylist. Remove graph from plugins.deny" in engine
    assert "is no memory backend" in memory


def test_a_safe_start_says_that_the_selected_plugin_is_off(bench: Any) -> None:
    host = bench.load(
        bench.entry_point("graph", group="hermitcrab.context_engines"),
        config=bench.Config(slots=bench.Slots(context_engine="graph")),
        safe_mode=True,
    )
    (error,) = slot_errors(host)
    assert error.endswith("is off: safe mode")
    assert host.records["legacy"].status == "loaded"


def test_a_selected_engine_that_registers_itself_is_fine(bench: Any) -> None:
    @hookimpl(specname="register_context_engines")
    def register_graph(registry: Any) -> None:
        registry.register("graph", object)

    registries = PluginRegistries()
    host = bench.load(
        bench.entry_point(
            "graph", bench.plugin(register_graph), group="hermitcrab.context_engines"
        ),
        config=bench.Config(slots=bench.Slots(context_engine="graph")),
        registries=registries,
    )
    assert host.diagnostics == ()
    assert registries.context_engines.find("graph") is object
    assert registries.context_engines.find("legacy") is object


def test_names_in_config_that_are_not_installed_are_pointed_out(bench: Any) -> None:
    config = bench.Config(entries={"too1s": bench.Entry()}, deny=("gone",))
    host = bench.load(bench.entry_point("tools", bench.plugin(register_tools)), config=config)
    assert [(each.plugin_id, each.level) for each in host.diagnostics] == [
        ("too1s", "warning"),
        ("gone", "warning"),
    ]
    assert host.diagnostics[0].hint == 'Did you mean "tools"?'
