"""The shapes of what Folio takes and gives, as `docs/openapi.json` has them.

Made by `tools/shapes.py`; changed there and nowhere else.
"""

import sys
from typing import Any, Literal, NotRequired, TypeAlias

# Pydantic reads no other before Python 3.12.
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict


class Alive(TypedDict):
    """The process is alive."""

    status: str


class AnswerInput(TypedDict):
    """The answer to a question."""

    # The text of the answer.
    answer: str


class Begin(TypedDict):
    """A new turn and its input."""

    # Whether the turn runs in the background: nobody waits for it.
    background: NotRequired[bool]
    # If given, the answer includes an assembled context for the prompt within this budget in tokens.
    budget: NotRequired[int | None]
    # Whether an unclear input adds a question to ask first; true if not given. If false, the conversation that the
    # input is part of tells what is meant.
    clarify: NotRequired[bool | None]
    # The input that the turn handles.
    input: NotRequired[str]
    # The model whose tokens are counted; without it, tokens are estimated.
    model: NotRequired[str | None]
    # The thread; the main thread if not given.
    thread: NotRequired[str | None]


class BegunShape(TypedDict):
    """A turn that has just begun."""

    # The pending confirmation that the input answered.
    answered: NotRequired["Observation | None"]
    # The last commit that the turn takes into account.
    as_of: int
    # Whether it runs in the background: nobody waits for it.
    background: bool
    # Whether nothing was left to do; null while it is open.
    complete: NotRequired[bool | None]
    # The assembled context for the prompt, if a budget was given.
    context: NotRequired["ContextShape | None"]
    # The decisions of the stages, with the entries that they used.
    decisions: list["Decision2"]
    # When the turn ended; null while it is open.
    ended_at: NotRequired[str | None]
    # The hash of its export; null while it is open.
    export: NotRequired[str | None]
    # The turn's handle, such as `t5`.
    handle: str
    # The input that the turn handles.
    input: str
    # The entries that the agent should act on, most important first.
    order: list["Used"]
    # The question that has to be asked first, if the input is not clear.
    question: NotRequired["Observation | None"]
    # Whether an earlier call with the same key had begun it already.
    replayed: NotRequired[bool]
    # The id of the run whose turn this is.
    run_id: NotRequired[str | None]
    # When the turn began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # The thread of the turn.
    thread: str
    # The number of entries that it touched; null while it is open.
    touched: NotRequired[int | None]
    # The turn's permanent id.
    turn_id: str
    # The urgency that the router decided on.
    urgency: NotRequired[str | None]


# The observations whose stated confidence is in one range, and their marks.
Bin = TypedDict(
    "Bin",
    {
        "confirmed": int,
        "from": float,
        "marked": int,
        "mean_stated": float,
        "share_confirmed": float,
    },
)


class BodyPiece(TypedDict):
    """A piece of a text that is too long to be held in memory as one."""

    # The length of the piece in bytes.
    bytes: int
    # The SHA-256 of the piece, by which it is found.
    hash: str
    # The number of line breaks in the piece.
    newlines: int


class BodyRef(TypedDict):
    """A reference to a text that is kept beside the entry."""

    # The length of the text in bytes.
    bytes: int
    # The SHA-256 of the text, by which it is found; for a text in pieces, the SHA-256 of the hashes of its pieces.
    hash: str
    # The pieces of the text, in order. Empty for a text that is kept whole.
    pieces: NotRequired[list["BodyPiece"]]


class ChangeShape(TypedDict):
    """One change that a commit made to memory."""

    # The name of the change, such as `add_entry`.
    change: str
    # The names of the fields that were set.
    fields: NotRequired[list[str]]
    # The kind of the added entry.
    kind: NotRequired[str | None]
    # The id of the changed entry.
    observation_id: NotRequired[str | None]
    # The id of the changed page, or of the page that holds the added entry.
    page_id: NotRequired[str | None]


class ClaimInput(TypedDict):
    """Who claims an item, and for how long."""

    # The minutes until the claim ends and anybody may claim the item; without it, the claim lasts until the item is
    # done or released.
    lease_minutes: NotRequired[int | None]
    # Who claims it: a name that each worker has for itself, without white space.
    owner: str
    # The reason, in words.
    reason: NotRequired[str | None]


class ClaimNextInput(TypedDict):
    """Who claims the next item, and for how long."""

    # The minutes until the claim ends and anybody may claim the item; without it, the claim lasts until the item is
    # done or released.
    lease_minutes: NotRequired[int | None]
    # Who claims it: a name that each worker has for itself, without white space.
    owner: str


class Claimed(TypedDict):
    """The item that was claimed."""

    # The item; null if none is ready.
    claimed: NotRequired["ScratchItem | None"]


class CommitShape(TypedDict):
    """A commit of a space."""

    # Who made it: the role, and the name if there is one.
    by: str
    # The changes that it made to memory, in order.
    changes: list["ChangeShape"]
    # The run in which everything that it holds was done first, if a fork repeats it.
    copied_from: NotRequired[str | None]
    # The names of the run's events that it holds, in order.
    events: list[str]
    # The run whose events it holds, or in which it was made.
    run_id: NotRequired[str | None]
    # Its number in the space.
    seq: int
    # When it was made.
    timestamp: str
    # The turn in which it was made.
    turn_id: NotRequired[str | None]


class ContextItem(TypedDict):
    """An observation in the form that a tool gets (seed 004)."""

    # How sure the writer was.
    confidence: NotRequired[float | None]
    # The text of the observation; of a text that is kept beside it, the beginning.
    content: str
    # Where the whole text is kept, if `content` is only the beginning.
    content_ref: NotRequired["BodyRef | None"]
    # What the observation is about.
    context: NotRequired[Any]
    # When the observation was added.
    created_at: str
    # When its lifetime ends.
    expires_at: NotRequired[str | None]
    # The handle in its space.
    handle: str
    # The permanent id of the observation.
    id: str
    # Who should act.
    owner: str
    # The status of the observation.
    status: str
    # The entry that superseded it.
    superseded_by: NotRequired[str | None]
    # The tags of the observation.
    tags: list[str]
    # The type of the observation.
    type: NotRequired[str | None]


class ContextShape(TypedDict):
    """An assembled context: the part of memory that goes into a prompt."""

    # The text for the model.
    context: str
    # The receipt: what is shown whole, shortened and left out.
    receipt: "Receipt"
    # The same text by section: the requested sections, in the order of the text.
    sections: list["SectionShape"]
    # The number of tokens of the text.
    tokens: int


class Conversation(TypedDict):
    """A conversation after its older messages were offloaded."""

    # The messages with which the conversation continues.
    messages: list[Any]
    # The account of what was put away, and where it is.
    receipt: "OffloadReceipt"
    # Warnings about the turn in which they were put away: that it has ended.
    turn_warnings: NotRequired[list["Warning"]]


class Correction(TypedDict):
    """A correction of an item."""

    # The array of the item.
    channel: "Channel"
    # A stable code, such as `confidence_clamped`.
    code: str
    # The value as it was sent: a number as a number, or as text if JSON has no such number.
    given: Any
    # The index of the item in its array, from 0.
    index: int
    # What was corrected, in words.
    message: str
    # The value that is used instead.
    used: Any


class CostDiff(TypedDict):
    """A node that is the same in both runs except for its cost."""

    # How many newer nodes have that path.
    newer: int
    # What it used in the first run.
    one: "SpendShape"
    # What it used in the second run.
    other: "SpendShape"
    # The path of the node; empty for the run as a whole.
    path: str


class CriterionShape(TypedDict):
    """CriterionShape"""

    id: str
    # Whether the result fails if this criterion is not met.
    required: bool
    text: str


class Decision(TypedDict):
    """An approval or a rejection."""

    # When approving a call: which calls of the run need no further approval from now on, every call of the `tool`, or
    # only those with the same `arguments`.
    always: NotRequired[str | None]
    approve: bool
    # When rejecting: the reason.
    reason: NotRequired[str]


class Decision2(TypedDict):
    """What a stage decided. It is kept in the log with the turn, so that "which observation changed which decision"
    can be answered for as long as the log is kept."""

    # The reasons, in words.
    reasons: NotRequired[list[str]]
    # The stage that decided.
    stage: "Stage"
    # The entries that made a difference, sorted and without duplicates.
    used: NotRequired[list["Used"]]
    # The result, in one word: `high`, `clear`, `complete` …
    verdict: str


class DecisionInTurn(TypedDict):
    """A decision, and the turn that it was made in."""

    # The input that the turn handles.
    input: str
    # The reasons, in words.
    reasons: NotRequired[list[str]]
    # The stage that decided.
    stage: "Stage"
    # The turn's handle, such as `t5`.
    turn: str
    # The turn's permanent id.
    turn_id: str
    # The entries that made a difference, sorted and without duplicates.
    used: NotRequired[list["Used"]]
    # The result, in one word: `high`, `clear`, `complete` …
    verdict: str


class DiffShape(TypedDict):
    """How two runs differ."""

    # Those of them whose costs differ.
    costs: list["CostDiff"]
    # The `cursor` for the next part of `nodes` and `costs`; absent at the end.
    next: NotRequired[str | None]
    # Nodes that are not the same in both, in the order of their paths.
    nodes: list["NodeDiff"]
    # The first run.
    one: "SideShape"
    # The second run.
    other: "SideShape"
    # How many nodes are the same in both except for their cost.
    same: int


class EditedShape(TypedDict):
    """The result of an edit: the new plan and its differences from the one before."""

    difference: Any
    # The same steps as markdown, the form for editing.
    markdown: str
    node_id: str
    path: str
    plan_version: int
    run_id: str
    states: list["StepState"]
    # The steps in the plan format.
    steps: Any


class EndedShape(TypedDict):
    """A turn that has just ended."""

    # The entries that were archived.
    archived: list["Used"]
    # The last commit that the turn takes into account.
    as_of: int
    # Whether it runs in the background: nobody waits for it.
    background: bool
    # Whether nothing was left to do; null while it is open.
    complete: NotRequired[bool | None]
    # The decisions of the stages, with the entries that they used.
    decisions: list["Decision2"]
    # When the turn ended; null while it is open.
    ended_at: NotRequired[str | None]
    # The hash of its export; null while it is open.
    export: NotRequired[str | None]
    # Goals and pending actions with their progress.
    goals: list["GoalShape"]
    # The turn's handle, such as `t5`.
    handle: str
    # The input that the turn handles.
    input: str
    # Patterns that were found for the first time.
    patterns: list["FoundPattern"]
    # Observations that could become goals.
    proposals: list["Proposal"]
    # Whether an earlier call with the same key had ended it already.
    replayed: NotRequired[bool]
    # The id of the run whose turn this is.
    run_id: NotRequired[str | None]
    # When the turn began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # The thread of the turn.
    thread: str
    # The number of entries that it touched; null while it is open.
    touched: NotRequired[int | None]
    # The turn's permanent id.
    turn_id: str
    # The urgency that the router decided on.
    urgency: NotRequired[str | None]


class EntryShape(TypedDict):
    """An entry of a page."""

    # The text; only the beginning if it is long.
    body: str
    # Where the whole of a long text is kept, of which `body` is the beginning.
    body_ref: NotRequired["BodyRef | None"]
    # When it was added.
    created_at: str
    # The entry's permanent id.
    entry_id: str
    # The entry's handle, such as `e42`.
    handle: str
    # The version of the plan during which it was written.
    iteration: NotRequired[int | None]
    # The entry's kind.
    kind: str
    # The parts of a structured block.
    parts: NotRequired[Any]
    # The status of the entry.
    status: str
    # Its tags.
    tags: list[str]
    # The entry's title.
    title: str
    # The registered type of an observation.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int


class EpisodeShape(TypedDict):
    """An earlier turn with the entries that it touched."""

    # The last commit that the turn takes into account.
    as_of: int
    # Whether it runs in the background: nobody waits for it.
    background: bool
    # Whether nothing was left to do; null while it is open.
    complete: NotRequired[bool | None]
    # The decisions of the stages, with the entries that they used.
    decisions: list["Decision2"]
    # When the turn ended; null while it is open.
    ended_at: NotRequired[str | None]
    # The entries that the turn touched, as they were then.
    entries: list["Observation"]
    # The hash of its export; null while it is open.
    export: NotRequired[str | None]
    # The turn's handle, such as `t5`.
    handle: str
    # The input that the turn handles.
    input: str
    # The id of the run whose turn this is.
    run_id: NotRequired[str | None]
    # When the turn began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # The thread of the turn.
    thread: str
    # The number of entries that it touched; null while it is open.
    touched: NotRequired[int | None]
    # The turn's permanent id.
    turn_id: str
    # The urgency that the router decided on.
    urgency: NotRequired[str | None]


class EpisodesShape(TypedDict):
    """Earlier turns, newest first."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["EpisodeShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # If only the newest turns were searched: those that began at this time or later. `until` this time searches older
    # ones.
    searched_from: NotRequired[str | None]
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class EvictedShape(TypedDict):
    """What takes the place of a tool's result in a prompt."""

    # The length of the result in bytes.
    bytes: int
    # The SHA-256 hash of the result; null if `preview` is the result itself.
    hash: NotRequired[str | None]
    # The number of lines of the result.
    lines: int
    # The result itself if it is small enough, otherwise a preview of it.
    preview: str
    # The handle of the entry by which the result is read; null if `preview` is the result itself.
    ref: NotRequired[str | None]
    # The number of tokens of the preview.
    tokens: int
    # Warnings about the turn in which it was put away: that it has ended.
    turn_warnings: NotRequired[list["Warning"]]


class EvidenceShape(TypedDict):
    """EvidenceShape"""

    hash: NotRequired[str | None]
    id: str
    kind: str
    span: NotRequired[str | None]


class ExportShape(TypedDict):
    """The export of a turn."""

    as_of: int
    at: str
    # Every entry of the space by version and hash (M7.6.47).
    manifest: list[Any]
    # The entries that the turn touched, as they were then, with the versions that it found.
    touched: list[Any]
    turn_id: str


class FieldConflict(TypedDict):
    """A field that two writers changed without knowing of each other. The later write wins."""

    # The version that the later writer had read.
    base_version: int
    # The name of the field.
    field: str
    # The value that was kept.
    ours: Any
    # The version that was overwritten.
    overwrote_version: int
    # The value that was lost.
    theirs: Any


class FieldDiff(TypedDict):
    """One field before and after a change."""

    # The value after.
    after: Any
    # The value before; `null` if there was none.
    before: Any
    # The name of the field.
    field: str


class Folded(TypedDict):
    """An entry that is shown by the line of an equal one, or by another line that says the same."""

    # The name of the line that stands for it.
    into: str
    # The name by which it can be requested.
    name: str


class For(TypedDict):
    """A request for an assembled context."""

    # The budget in tokens; 4,000 if not given.
    budget: NotRequired[int | None]
    # The model whose tokens are counted; without it, tokens are estimated.
    model: NotRequired[str | None]
    # The prompt that the context is for; the input of the turn if not given.
    prompt: NotRequired[str]
    # The sections, as a list of names, or with their shares in percent; all sections if not given.
    sections: NotRequired["Sections | None"]
    # The thread; the main thread if not given.
    thread: NotRequired[str | None]
    # The turn, if any: `t3` or `turn_…`.
    turn: NotRequired[str | None]


class Forget(TypedDict):
    """Which entries or runs to forget. An entry has to match all given fields."""

    # Only entries with these values in their context, by dotted paths.
    context: NotRequired[dict[str, Any]]
    # Whether only to report what would be forgotten.
    dry_run: NotRequired[bool]
    # The entries: `e42` or `obs_…`. Here and in the other lists, a single value may be given instead of a list.
    entries: NotRequired[list[str]]
    # Only entries of one of these kinds: `observation`, `note`, `todo`, `task`, ….
    kind: NotRequired[list[str]]
    # Only entries of one of these owners.
    owner: NotRequired[list[str]]
    # The reason. It is kept, so it should not repeat what is forgotten.
    reason: NotRequired[str]
    # Runs that have ended: `r3` or `run_…`. They are forgotten as a whole: everything that their journals say, their
    # titles, what stands on their pages, and what was said in their turns. Beside them only `entries` may be given.
    runs: NotRequired[list[str]]
    # Only entries with all of these tags.
    tags: NotRequired[list[str]]
    # Only entries that contain this text, or once did. If nothing else is given, also what was said in turns: the
    # inputs and the reasons of turns that contain it. The answer then names the runs that say it (`runs_saying`).
    text: NotRequired[str | None]
    # Only observations of one of these types.
    type: NotRequired[list[str]]


class Forgot(TypedDict):
    """The entries and runs that were forgotten, or that a dry run would forget."""

    # Whether this was a dry run, so nothing was erased.
    dry_run: bool
    # The folders of the files that these runs wrote, which were removed with everything in them.
    folders: NotRequired[list[str]]
    # The entries, without their content.
    forgotten: list["Named"]
    # Whether an earlier call with the same key did it.
    replayed: NotRequired[bool]
    # What was searched for residue afterwards, and what was found.
    residue: NotRequired["Residue | None"]
    # The handles of runs that were forgotten as a whole, with what stands on their pages and was said in their turns.
    runs: NotRequired[list[str]]
    # The handles of runs that have ended and say the text. They were left: a run is only forgotten as a whole, if
    # somebody names it.
    runs_saying: NotRequired[list[str]]
    # The handles of turns whose input and reasons are gone.
    turns: NotRequired[list[str]]
    # The number of matching items of tools that wait in the outbox.
    waiting: int


class ForgottenShape(TypedDict):
    """What is still known of a run that was forgotten."""

    # When it was forgotten.
    at: str
    # Who had it forgotten.
    by: str
    # When it had ended.
    ended_at: str
    # The number of its events.
    events: int
    # The number of its nodes that were done.
    nodes: int
    # Why, in their words.
    reason: NotRequired[str | None]
    # How it had ended.
    status: str


class ForkInput(TypedDict):
    """The moment at which a fork begins: give exactly one of `at` and `before_limit`."""

    # The path or id of the node that is to be carried out again.
    at: NotRequired[str | None]
    # Whether the fork begins at the moment before a limit first stopped anything.
    before_limit: NotRequired[bool]
    # Whether the fork begins paused, so no call begins until somebody continues it.
    paused: NotRequired[bool]


class Found(TypedDict):
    """An entry that a search found, and where it contains the words searched for."""

    # When the entry was added.
    created_at: str
    # The entry's permanent id.
    entry_id: str
    # The entry's handle, such as `e42`.
    handle: str
    # The entry's kind.
    kind: str
    # The id of the page that holds it.
    page_id: str
    # How well it matches the search. Higher is better; comparable only within one answer.
    score: NotRequired[float | None]
    # The part of its text with most of the words searched for, in pieces.
    snippet: "Snippet"
    # The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    state: str
    # The status that its writers gave it.
    status: str
    # The entry's tags.
    tags: list[str]
    # The entry's title.
    title: str
    # The registered type of the observation.
    type: NotRequired[str | None]
    # When the entry last changed.
    updated_at: str


class FoundLine(TypedDict):
    """A line that a search found."""

    # The number of the line, counted from 1.
    line: int
    # The line, or about 300 characters around the match.
    text: str


class FoundPattern(TypedDict):
    """A pattern in the current observations."""

    # The confidence of the pattern.
    confidence: float
    # The context that all members share.
    context: NotRequired[Any]
    # When the pattern was first seen.
    first_at: str
    # The name of the group: class, tags and context.
    group: str
    # Whether the members have the same numbers. If not, what the last one says is only the latest of several
    # readings, and no fact.
    has_same_numbers: bool
    # Whether the pattern says something that no entry records yet.
    is_news: bool
    # When the pattern was last seen.
    last_at: str
    # The observations, oldest first.
    members: list["Used"]
    # The number of turns in which the group occurred.
    of_turns: int
    # The entries that recorded this pattern so far, as they were read; a new entry supersedes them. There are several
    # if two turns ended at the same moment.
    replaces: list["Used"]
    # The facts that were derived from it so far, as they were read.
    replaces_facts: list["Used"]
    # The tags that all members have.
    tags: list[str]
    # The most recent wording.
    text: str
    # The lowest trust among the members.
    trust: "Trust"
    # The number of turns in which they were seen.
    turns: int


class GoalShape(TypedDict):
    """A goal or a pending action."""

    # The text; of a long text, the beginning.
    body: str
    # Where the whole text is kept, if `body` is only its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # The number of linked entries that are closed.
    closed: int
    # When the item was made, in nanoseconds since 1970. No two items of a space share this value.
    created_at_nanoseconds: int
    # Why the content was erased, if it was.
    erased: NotRequired[str | None]
    # The item's handle, such as `e42`.
    handle: str
    # The item's permanent id.
    item_id: str
    # The value by which the context of other entries refers to it: its own key, or its handle if it has none.
    key: NotRequired[Any]
    # `note`, `todo`, `task`.
    kind: str
    # When the claim of `owner` ends: from then on, anybody may claim the work. A claim without it has no end.
    lease_until: NotRequired[str | None]
    # The number of linked entries that are open.
    open: int
    # Who has claimed the work, or is meant to do it; absent if that is anybody.
    owner: NotRequired[str | None]
    # The phase of a task.
    phase: NotRequired[str | None]
    # Whether the item is pinned.
    pinned: bool
    # The progress of a task, from 0 to 1.
    progress: NotRequired[float | None]
    # The item's status.
    status: str
    # Tags to find the item by.
    tags: list[str]
    # The title, in one line.
    title: str
    # When the item last changed, in nanoseconds since 1970.
    updated_at_nanoseconds: int
    # Counts the item's revisions, from 1.
    version: int


class HeldUpShape(TypedDict):
    """The resource for which a call of this run waits, because a call of another run is writing it."""

    # The handle of the run that writes it.
    by: str
    # The name of the resource, such as a path.
    name: str


class ItemInput(TypedDict):
    """An item to be added."""

    # The text of the item.
    body: NotRequired[str]
    # `note`, `todo` or `task`.
    kind: "ItemKind"
    # The phase of a task.
    phase: NotRequired[str | None]
    # The progress of a task, from 0 to 1.
    progress: NotRequired[float | None]
    # Tags to find the item by.
    tags: NotRequired[list[str]]
    # The title, in one line. If left out, the first line of the body is the title.
    title: NotRequired[str | None]


class ItemPatch(TypedDict):
    """The fields of an item to change; a field that is left out stays as it is."""

    # The new text. The beginning that answers show of a longer text stands for that text and changes nothing.
    body: NotRequired[str | None]
    # The new phase.
    phase: NotRequired[str | None]
    # The new progress.
    progress: NotRequired[float | None]
    # The new status or one of its synonyms.
    status: NotRequired[str | None]
    # The new tags, which replace all old ones.
    tags: NotRequired[list[str] | None]
    # The new title.
    title: NotRequired[str | None]


class Large(TypedDict):
    """A tool's result, and the number of tokens that it may take in a prompt."""

    # The limit in tokens of the result, or of the preview that replaces it.
    limit: NotRequired[int]
    # The model whose tokens are counted; without it, tokens are estimated.
    model: NotRequired[str | None]
    # What the result is the result of; one that can be read again from its origin is never put away.
    of: NotRequired["ResultOf"]
    # The result: a text, or any other JSON value.
    result: Any
    # The tool that returned the result.
    tool: NotRequired[str]


class LimitShape(TypedDict):
    """One limit of a run or of a part of it."""

    limit: int
    # The part of `used` beyond the limit, because a call used more than was set aside for it.
    over: NotRequired[int]
    # The part of `used` that is only set aside, for calls under way and for members of groups: what they do not use
    # of it comes back.
    set_aside: NotRequired[int]
    # What is used, including what is set aside for calls under way.
    used: int
    # What it limits: `tokens`, `tokens_in`, `tokens_cached`, `tokens_out`, `micro_usd`, `model_calls`, `tool_calls`
    # or `bytes`.
    what: str


class LimitsInput(TypedDict):
    """New limits. A limit that is left out stays unchanged."""

    # Bytes of the journal and of the pages together.
    bytes: NotRequired[int | None]
    # The time by which the run has to end, or a part that has a time limit of its own.
    deadline: NotRequired[str | None]
    # The cost in millionths of a US dollar.
    micro_usd: NotRequired[int | None]
    # The number of model calls.
    model_calls: NotRequired[int | None]
    # The number of nodes of the whole tree, or of a part that has such a limit of its own.
    nodes: NotRequired[int | None]
    # Input and output tokens together.
    tokens: NotRequired[int | None]
    # The part of the input tokens that the provider reads from its cache.
    tokens_cached: NotRequired[int | None]
    # Input tokens of models.
    tokens_in: NotRequired[int | None]
    # Output tokens of models.
    tokens_out: NotRequired[int | None]
    # The number of tool calls.
    tool_calls: NotRequired[int | None]


class LimitsShape(TypedDict):
    """The limits of a run or of a part of it."""

    # The time by which it has to end; null if it has none, and for a part that sets no such limit itself.
    deadline: NotRequired[str | None]
    # Its own limits. The limits of everything around it apply as well.
    limits: list["LimitShape"]
    node_id: str
    # The limit on the number of nodes, and how many nodes its plans have. Null for a part that sets no such limit
    # itself.
    nodes: NotRequired["NodesShape | None"]
    path: str
    run_id: str


class LinkShape(TypedDict):
    """A link from a page to a page that it contains."""

    # The id of the contained page.
    dst: str
    # The relation: `document_has_document`.
    relation: str
    # The id of the containing page.
    src: str


class ListOfEntryShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["EntryShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfFound(TypedDict):
    """What a search found."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["Found"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # Whether nothing has all of the words, and the items have some of them.
    some_words: NotRequired[bool]
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfGoalShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["GoalShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfObservation(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["Observation"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfPageShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["PageShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfPlanVersionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["PlanVersionShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfQuestionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["QuestionShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfReceiptShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["ReceiptShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfReliability(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["Reliability"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfRunShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["RunShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfScratchItem(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["ScratchItem"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfSpaceShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["SpaceShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfTraceLine(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["TraceLine"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfTurnShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["TurnShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class ListOfVersionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["VersionShape"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class Named(TypedDict):
    """An entry without its content."""

    # When the entry was added.
    created_at: str
    # The entry's handle, such as `e42`.
    handle: str
    # The entry's kind.
    kind: "EntryKind"
    # The entry's permanent id.
    observation_id: str
    # The registered type of the observation.
    type: NotRequired[str | None]


class NewEntry(TypedDict):
    """A new entry for a page."""

    # The text, in markdown.
    body: NotRequired[str]
    # The tags.
    tags: NotRequired[list[str]]
    # The heading above the text.
    title: NotRequired[str]


class NewNode(TypedDict):
    """A node that has just been created: its properties that never change, and its own limits."""

    kind: str
    limits: list["LimitShape"]
    node_id: str
    optional: bool
    page_id: str
    parent_id: NotRequired[str | None]
    path: str
    title: str


class NewPage(TypedDict):
    """A new page."""

    # The page that is to contain it: `p7` or `page_…`.
    parent: NotRequired[str | None]
    # The page role: `note` (the default), `workspace`, `scratchpad_root`, `scratchpad_exec`, `plan` or
    # `iteration_summary`.
    role: NotRequired[str | None]
    # The tags.
    tags: NotRequired[list[str]]
    # The title.
    title: str


class NewRunBody(TypedDict):
    """A new run."""

    # Hosts that the tool `http_get` may access: `example.org`, `example.org:8080`, `*.example.org`, an address, or a
    # network such as `10.0.0.0/8`. Only people may set this.
    allow_hosts: NotRequired[list[str]]
    # Whether the tool `shell` may run any command. Only people may set this.
    allow_shell: NotRequired[bool]
    # Tools that may be called without a person's approval: `NAME`, or `SERVER.*` for all tools of an MCP server;
    # `shell` has the effect of `allow_shell`. Only people may set this.
    allow_tools: NotRequired[list[str]]
    # The goal, in words.
    goal: NotRequired[str | None]
    # The inputs of the plan. Paths must be below the folder in which the server was started.
    inputs: NotRequired[dict[str, Any]]
    # Which criteria a judge decides.
    judging: NotRequired["Judged"]
    # The limits of the run, in place of those in the plan. Without a deadline it has to end after 30 minutes, without
    # the time in which it only waits for people.
    limits: NotRequired["LimitsInput | None"]
    # The plan: the document as JSON, or as a text in YAML or JSON. Without it, a model plans for the goal.
    plan: NotRequired[Any]
    # The plans of models that wait for a person's approval: `never` (the default), `root`, `depth<=N`, `always` or
    # `if_cost>USD`.
    plan_gate: NotRequired[str | None]
    # When models split tasks into steps.
    planning: NotRequired["Planning"]
    # The thread that the run belongs to; the main thread if not given.
    thread: NotRequired[str | None]


class NodeDiff(TypedDict):
    """A node that is not the same in both runs."""

    # What differs, if both exist: `kind`, `status`, `notes`, `call`, `output`, `cost`.
    differs: list[str]
    # How many newer nodes have that path: each version of a plan has its own.
    newer: int
    # The node in the first run; null if it does not exist there.
    one: NotRequired["NodeSide | None"]
    # The node in the second run; null if it does not exist there.
    other: NotRequired["NodeSide | None"]
    # The path of the node; empty for the run as a whole.
    path: str


class NodeInFull(TypedDict):
    """A node of a run with its result."""

    # The arguments of its last call in full, with everything filled in and secrets replaced; absent where they are no
    # longer known.
    args: NotRequired[Any]
    attempt: int
    call: str
    # The criteria that its result has to meet.
    criteria: list["CriterionShape"]
    # How many nodes are above it.
    depth: int
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    kind: str
    # The node's own limits.
    limits: NotRequired[list["LimitShape"]]
    node_id: str
    notes: str
    optional: bool
    # The handle of the node's page, once the page exists.
    page: NotRequired[str | None]
    # The id that the node's page has or will have.
    page_id: str
    # The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    # were made again.
    paid_twice: NotRequired[int]
    # The node above it; null for the root.
    parent_id: NotRequired[str | None]
    # Why it waits before the next attempt, and until when.
    parked: NotRequired["ParkedShape | None"]
    path: str
    # Whether it is paused: no call at or below this node begins until somebody continues it.
    paused: bool
    # The version of its plan; 0 if it has none or has not begun to carry it out.
    plan_version: int
    result: NotRequired["ResultShape | None"]
    # What this node and all nodes below it have used.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    state: str
    # The outcome; null before it has ended.
    status: NotRequired[str | None]
    stop_reason: NotRequired[str | None]
    # Whether another version of a plan superseded it or a node above it: its result no longer counts.
    superseded: NotRequired[bool]
    title: str


class NodeShape(TypedDict):
    """One node of a tree."""

    attempt: int
    call: str
    # How many nodes are above it.
    depth: int
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    kind: str
    # The node's own limits.
    limits: NotRequired[list["LimitShape"]]
    node_id: str
    notes: str
    optional: bool
    # The handle of the node's page, once the page exists.
    page: NotRequired[str | None]
    # The id that the node's page has or will have.
    page_id: str
    # The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    # were made again.
    paid_twice: NotRequired[int]
    # The node above it; null for the root.
    parent_id: NotRequired[str | None]
    # Why it waits before the next attempt, and until when.
    parked: NotRequired["ParkedShape | None"]
    path: str
    # Whether it is paused: no call at or below this node begins until somebody continues it.
    paused: bool
    # The version of its plan; 0 if it has none or has not begun to carry it out.
    plan_version: int
    # What this node and all nodes below it have used.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    state: str
    # The outcome; null before it has ended.
    status: NotRequired[str | None]
    stop_reason: NotRequired[str | None]
    # Whether another version of a plan superseded it or a node above it: its result no longer counts.
    superseded: NotRequired[bool]
    title: str


class NodeSide(TypedDict):
    """A node in one of the two runs."""

    # Its call, in one line.
    call: NotRequired[str]
    # The kind of the node.
    kind: str
    # The notes of its result.
    notes: str
    # The output for later steps. `{"blob": HASH, "bytes": N}` stands for an output that is kept beside the journal.
    output: Any
    # What the node and everything below it used.
    spent: "SpendShape"
    # How it ended, or its state.
    status: str
    # Why it ended as it did.
    stop_reason: NotRequired[str | None]


class NodesShape(TypedDict):
    """NodesShape"""

    limit: int
    used: int


class Numbered(TypedDict):
    """A message of the history with its number."""

    # The message as it was given to Folio.
    message: Any
    # Its place in the history, counted from 1.
    number: int


class Observation(TypedDict):
    """An observation."""

    # The rule by which it was archived, if no actor did it.
    archived_for: NotRequired[str | None]
    # The source that its writer stated.
    claimed_source: NotRequired[Any]
    # The writer's confidence, from 0 to 1.
    confidence: NotRequired[float | None]
    # The text of the observation; only the beginning if it is long.
    content: str
    # Where a long text is kept. `content` is then its beginning, or the whole text if that was requested.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about, as JSON; null if not given.
    context: NotRequired[Any]
    # When the observation was added.
    created_at: str
    # Why its content was erased, if it was.
    erased: NotRequired[str | None]
    # When its lifetime ends; null for never.
    expires_at: NotRequired[str | None]
    # The observation's handle, such as `e42`.
    handle: str
    # Any other data; null if not given.
    metadata: NotRequired[Any]
    # The observation's permanent id.
    observation_id: str
    # Whether it was confirmed or refuted later.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # The kinds of personal data that were detected in it.
    pii: NotRequired[list[str]]
    # Its position among the pinned entries of its page.
    pinned: NotRequired[int | None]
    # How well it matches the text searched for.
    score: NotRequired[float | None]
    # Where it came from. Folio stamps the source and never takes it from the request.
    source: "Source"
    # The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    state: str
    # The status that its writers gave it.
    status: str
    # The entry that superseded it.
    superseded_by: NotRequired[str | None]
    # The observation's tags.
    tags: list[str]
    # The observation's title.
    title: NotRequired[str]
    # How far to trust its content: `user`, `model`, `tool_internal`, `tool_external` or `imported`.
    trust: str
    # Its lifetime in minutes; null if it has no end.
    ttl_minutes: NotRequired[float | None]
    # The registered type of the observation.
    type: NotRequired[str | None]
    # When the observation last changed.
    updated_at: str
    # When it was last confirmed, if it was. Its lifetime counts from then.
    validated_at: NotRequired[str | None]
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int


class ObservationInput(TypedDict):
    """An observation as a tool, a model or a person writes it. Numbers are read as raw JSON, so that they can be
    corrected with a warning instead of refused."""

    # The confidence: a number from 0 to 1, or `low`, `medium`, `high`.
    confidence: NotRequired[Any]
    # The text of the observation.
    content: str
    # What the observation is about.
    context: NotRequired[Any]
    # The end of the lifetime, instead of `ttl_minutes`.
    expires_at: NotRequired[str | None]
    # Any other data.
    metadata: NotRequired[Any]
    # The id that the writer uses. Kept with the claimed source, because the space assigns its own ids.
    observation_id: NotRequired[str | None]
    # Who should act; `agent` if left out.
    owner: NotRequired[str | None]
    # The source that the writer claims. Kept only as a claim: the actual source is that of the connection (M7.3.31).
    source: NotRequired[Any]
    # `active`, `pending_review` or `resolved`; `active` if left out.
    status: NotRequired[str | None]
    # Tags to find it by.
    tags: NotRequired[list[str]]
    # The title: one line above the text.
    title: NotRequired[str | None]
    # The lifetime in minutes. `null` means forever; if left out, the default of the type applies.
    ttl_minutes: NotRequired[float | None]
    # The registered type; `observation` if left out.
    type: NotRequired[str | None]


class ObservationPatch(TypedDict):
    """The fields of an observation to change; a field that is left out stays as it is. The type and the end cannot
    be changed: an update does not make an observation hold longer (M7.1.6)."""

    # The new confidence: a number from 0 to 1, or `low`, `medium`, `high`.
    confidence: NotRequired[Any]
    # The new text. The beginning that answers show of a longer text stands for that text and changes nothing.
    content: NotRequired[str | None]
    # The new context, which replaces all of the old one.
    context: NotRequired[Any]
    # The new metadata, which replaces all of the old.
    metadata: NotRequired[Any]
    # The new owner.
    owner: NotRequired[str | None]
    # The new status.
    status: NotRequired[str | None]
    # The new tags, which replace all old ones.
    tags: NotRequired[list[str] | None]
    # The new title.
    title: NotRequired[str | None]


class OffloadReceipt(TypedDict):
    """The account of what was put away, and where it is."""

    # The numbers in the history of the first and the last message that was put away, and the handle of their block;
    # null if none was put away.
    history: NotRequired[Any]
    # The handle of the entry with the next actions; null if there are none.
    next_actions: NotRequired[str | None]
    # The number of messages that were put away.
    offloaded: int
    # Whether an earlier call had put them away already.
    replayed: bool
    # The handle of the entry with the summary; null if no message was put away.
    summary: NotRequired[str | None]
    # The number of tokens of the messages that are left.
    tokens_after: int
    # The number of tokens of all messages before.
    tokens_before: int


class Omitted(TypedDict):
    """An entry that was left out, and why."""

    # The name by which it can be requested: `e42`, `p7`.
    name: str
    # `budget`: there was no room. `limit`: the section had reached its maximum number of lines. `told`: the reader
    # was told it before.
    reason: str


class OriginShape(TypedDict):
    """The moment of another run at which this fork began."""

    # The path of the node before which the fork began; empty for the run as a whole.
    path: str
    # The id of the other run.
    run_id: str


class OutputRef(TypedDict):
    """OutputRef"""

    bytes: int
    hash: str


class PageShape(TypedDict):
    """A page, with the properties that seed 000 names."""

    # The path of the task whose branch this page is.
    branch_id: NotRequired[str | None]
    # When it was added.
    created_at: str
    # The page's handle, such as `p7`.
    handle: str
    # The id of the run that it belongs to.
    homework_run_id: NotRequired[str | None]
    # The version of the plan during which it was written.
    iteration: NotRequired[int | None]
    # The link to this page from the page that contains it; empty for a page that none contains.
    links: list["LinkShape"]
    # The page's owner.
    owner: str
    # The page's permanent id.
    page_id: str
    # The id of the page that contains it.
    parent: NotRequired[str | None]
    # The properties that seed 000 names.
    props: Any
    # The page role, which says what the page is for.
    role: str
    # The status of the work on it.
    status: str
    # Its tags.
    tags: list[str]
    # The thread that it belongs to.
    thread: NotRequired[str | None]
    # The page's title.
    title: str
    # The name that seed 000 has for the page's role.
    type_key: str
    # When it last changed.
    updated_at: str
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int


class ParkedShape(TypedDict):
    """A node's wait before its next attempt."""

    # Why the last attempt failed.
    cause: str
    until: str


class PartInput(TypedDict):
    """The part of a run to which an operation applies."""

    # The path or id of a node: only this node and everything below it; without it, the whole run.
    node: NotRequired[str | None]


# A part of a long text, or the lines of it that a search found.
PassageShape = TypedDict(
    "PassageShape",
    {
        "count": NotRequired[int | None],
        "from": NotRequired[int | None],
        "from_line": NotRequired[int | None],
        "matches": NotRequired[list["FoundLine"] | None],
        "next": NotRequired[str | None],
        "text": NotRequired[str | None],
        "to": NotRequired[int | None],
        "total_bytes": int,
        "total_lines": int,
        "truncated": bool,
    },
)


class PlanShape(TypedDict):
    """The plan of a run or of a part of it."""

    # The same steps as markdown, the form for editing.
    markdown: str
    node_id: str
    path: str
    plan_version: int
    run_id: str
    states: list["StepState"]
    # The steps in the plan format.
    steps: Any


class PlanVersionShape(TypedDict):
    """One version of a plan."""

    # The person who made this version by editing; empty if it comes from the plan file or a model.
    by: str
    # The differences from the version before, if a person made this one: the names of the steps.
    difference: NotRequired[Any]
    # The same steps as markdown, the form for editing.
    markdown: str
    plan_version: int
    # The reason that a model gave for this plan.
    reason: NotRequired[str]
    # Who rejected it, and why, if somebody did: its steps never began.
    rejected: NotRequired["RejectionShape | None"]
    # The steps in the plan format.
    steps: Any
    # When this version became the plan.
    timestamp: str


class PolicyChanges(TypedDict):
    """Single keys to change. A key is a path with dots, such as `retention.purge_after_minutes`."""

    # The reason to record.
    reason: NotRequired[str | None]
    # Values by their keys. An object takes the place of everything below its key.
    set: NotRequired[dict[str, Any]]
    # Keys to reset to their built-in values.
    unset: NotRequired[list[str]]


class PolicyShape(TypedDict):
    """The policy of a space."""

    # The commit that last changed it; 0 if none did.
    changed_seq: int
    # All values in force.
    in_force: dict[str, Any]
    # The document: what differs from the built-in values.
    policy: dict[str, Any]
    # The space.
    space: str
    # The version of the policy; 0 if nobody has set one.
    version: int


class Problem(TypedDict):
    """An error. The code is stable; the texts are for people."""

    code: str
    # The entry concerned, in its current state.
    current: NotRequired["Current | None"]
    detail: str
    # The single mistakes, if there are several.
    errors: NotRequired[list[Any]]
    hints: list[str]
    status: int
    title: str
    type: str


class Proposal(TypedDict):
    """An observation that could become a goal. It is only proposed, never promoted automatically."""

    # The confidence of the observation.
    confidence: float
    # The observation.
    entry: "Used"
    # The title that the goal would have.
    title: str


class QuestionShape(TypedDict):
    """A question of a run, or a plan, call or check that waits for approval."""

    # For a call: the tool, its arguments, and the hash that identifies both.
    call: NotRequired[Any]
    # The answer that applies if nobody answers.
    default: NotRequired[str | None]
    # The name of the question, made of the run, the node and the question itself. An answer under this name never
    # applies to a later question of the same node.
    id: str
    # `question`, or one of `call`, `plan` and `check` (the command of a criterion), which wait for approval at
    # `/approvals/{id}`.
    kind: str
    # The id of the node that asks.
    node_id: str
    # The answers to choose from; if there are none, any answer is accepted.
    options: list[str]
    # The path of the node's step names; empty for the run itself.
    path: str
    # For a plan: its version.
    plan_version: NotRequired[int | None]
    # The question, or what waits for approval, in words.
    question: str
    # The handle of the run, such as `r3`.
    run: str
    # The permanent id of the run.
    run_id: str
    # The title of the node.
    title: str
    # The time until which it waits; null if no deadline ends that.
    until: NotRequired[str | None]


class Ready(TypedDict):
    """The server is ready."""

    # The last commit of that space.
    head: int
    # The space that the caller may use.
    space: str
    status: str


class Receipt(TypedDict):
    """The account of a view or a context: what was shown, shortened and left out."""

    # The budget in tokens.
    budget: int
    # How tokens were counted: `o200k_base`, `estimated`.
    counted: str
    # The SHA-256 of the rendered text.
    hash: str
    # The account of each section.
    sections: list["SectionReceipt"]
    # The tokens used.
    tokens: int


class ReceiptShape(TypedDict):
    """A kept receipt, and when it was made."""

    # The last commit before it.
    as_of: int
    # What it is the receipt of: `view` or `context`.
    of: str
    # The receipt: what was shown whole, shortened and left out.
    receipt: "Receipt"
    # The thread of the view; null for a context.
    thread: NotRequired[str | None]
    # When it was made.
    timestamp: str


class Received(TypedDict):
    """What was imported, or what a dry run would import."""

    # How many items were taken in with changes.
    changed: int
    # How many items exist in a different form, which stays.
    differs: int
    # Whether this was a dry run, so nothing was written.
    dry_run: bool
    # Entries that were added.
    entries: int
    # Links that were added.
    links: int
    # How many items existed and now are as the file says.
    merged: int
    # Pages that were added.
    pages: int
    # Whether the policy of the file was taken over.
    policy: bool
    # How many items existed already in the same form.
    present: int
    # How many items were not taken in.
    refused: int
    # Remarks about single items, with the reasons: the first thousand.
    remarks: list["Remark"]
    # Scratchbooks that were read.
    threads: int


class Rejection(TypedDict):
    """An item that was refused. The other items were accepted, and the answer stands (M7.3.25)."""

    # The array of the item.
    channel: "Channel"
    # A stable code, such as `type_undeclared`.
    code: str
    # The index of the item in its array, from 0.
    index: int
    # The reason in words.
    message: str


class RejectionShape(TypedDict):
    """A person's no to a plan."""

    by: str
    # Why it was rejected; empty if the person did not say.
    reason: str


class ReleaseInput(TypedDict):
    """Who releases an item."""

    # Who has claimed it.
    owner: str
    # The reason, in words.
    reason: NotRequired[str | None]


class Reliability(TypedDict):
    """The reliability of the observations of one type by one tool."""

    # The reliability table: the ranges with marked observations.
    bins: list["Bin"]
    # The Brier score: the mean squared difference between the stated confidence and 1 for confirmed or 0 for refuted.
    # 0 is perfect; always stating 0.5 scores 0.25.
    brier: float
    # The number of confirmed observations.
    confirmed: int
    # The mean of the stated confidences.
    mean_stated: float
    # The number of refuted observations.
    refuted: int
    # The tool; `None` for observations by people and roles.
    tool: NotRequired[str | None]
    # The observation type.
    type: str


class Remark(TypedDict):
    """A remark about one item of a file."""

    # A stable code for the reason.
    code: str
    # What happened to the item.
    fate: "Fate"
    # The item: its id in the file, with its thread before it if there is one, or the number of its line.
    item: str
    # The reason, in words.
    message: str


class ReplayShape(TypedDict):
    """What came of folding the journal of a run from its first event."""

    # What differs from what is stored, in words; empty if nothing does.
    differences: list[str]
    # The number of entries that follow from them.
    entries: int
    # The number of events in the journal.
    events: int
    # Whether the run went on each time that the differences were checked again: then they may be due to what happened
    # meanwhile.
    goes_on: NotRequired[bool]
    # The number of pages that follow from them.
    pages: int
    # The run's handle.
    run: str
    # The run's permanent id.
    run_id: str


class Residue(TypedDict):
    """What is left, anywhere in a store, of texts that should be gone."""

    # Copies that were made before a migration. They hold what the store held then; only people should remove them.
    backups: list[str]
    # Where a text still is, in words: another entry, a run, free space of a file.
    found: list[str]
    # How many entries were forgotten earlier, so that their text is not known any more and was not searched for. What
    # may be left of it was overwritten.
    no_longer_known: int
    # How many texts were not searched for, because they are so short that they occur by chance.
    not_looked_for: int
    # What was searched: files, byte by byte, and compressed rows.
    searched: list[str]


class ResultShape(TypedDict):
    """The result of a node."""

    criteria: list["VerdictShape"]
    evidence: list["EvidenceShape"]
    notes: str
    # The output itself, unless it is kept beside the journal.
    output: NotRequired[Any]
    # Whether an output is left out because it is too large, such as the combined results of a group's members. Get
    # the members' own results instead.
    output_omitted: NotRequired[bool]
    # The hash under which a large output is kept, and its size.
    output_ref: NotRequired["OutputRef | None"]
    severity: NotRequired[str | None]
    status: str
    stop_reason: NotRequired[str | None]
    # The node's name among its siblings: the last part of its path; `run` for the root.
    task_id: str


class RollupShape(TypedDict):
    """The roll-up of the pages that a page contains."""

    # The receipt: what is shown whole, shortened and left out.
    receipt: "Receipt"
    # The text for the model.
    rollup: str
    # The number of tokens of the text.
    tokens: int


class RunInFull(TypedDict):
    """A run with everything except its tree."""

    # The number of open questions to people and of plans, calls and checks that wait for approval.
    asks: int
    # The number of ended nodes, by outcome. Those that another version of a plan replaced are `replaced`.
    counts: dict[str, int]
    created_at: str
    # Whether a live process drives it. A run that is `running` but not driven waits to be resumed, unless it `waits`
    # for something else.
    driven: bool
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    # What is still known of the run if its status is `forgotten`.
    forgotten: NotRequired["ForgottenShape | None"]
    # The moment of another run at which it was forked, if it is a fork.
    forked_from: NotRequired["OriginShape | None"]
    goal: str
    handle: str
    # The last commit of its journal.
    head: int
    # What keeps one of its calls waiting, if anything does.
    held_up: NotRequired["HeldUpShape | None"]
    # The number of nodes whose call is under way.
    in_flight: int
    inputs: Any
    # The number of nodes created so far.
    nodes_total: int
    # The handles of the run's pages by purpose: `workspace`, `main`, `plan`, `summary`, `report`.
    pages: dict[str, str]
    # The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    # were made again (E9.9).
    paid_twice: NotRequired[int]
    # Whether the whole run is paused: no call begins until somebody continues it.
    paused: bool
    result: NotRequired["ResultShape | None"]
    run_id: str
    # What the run has used.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    # `running`, or the outcome, or `forgotten`.
    status: str
    title: str
    # The turn that it belongs to: its own, or the one in which it was started.
    turn_id: NotRequired[str | None]
    updated_at: str
    # Whether everything in the run waits, for people or for a time, or is paused: nobody needs to drive it meanwhile.
    waits: bool


class RunShape(TypedDict):
    """A run in a list."""

    # The number of open questions to people and of plans, calls and checks that wait for approval.
    asks: NotRequired[int | None]
    # How often in a row the run's driver was gone while the same work was under way; absent if its last one was not.
    broken_off: NotRequired[int | None]
    created_at: str
    # Whether a live process drives it. A run that is `running` but not driven waits to be resumed, unless it `waits`
    # for something else.
    driven: bool
    # What is still known of the run if its status is `forgotten`.
    forgotten: NotRequired["ForgottenShape | None"]
    # The path of the node before which the fork began, if it is one; empty for the run as a whole. Absent also if an
    # older version wrote the run's last event: get the run itself.
    fork_at: NotRequired[str | None]
    # The handle of the run that it was forked from, if it is a fork, or that run's id if nothing is left of it. Get
    # the run itself if an older version wrote the run's last event.
    fork_of: NotRequired[str | None]
    handle: str
    # The last commit of its journal.
    head: int
    # Whether the run is paused, as a whole or in all parts that could go on: only people continue it.
    paused: NotRequired[bool | None]
    run_id: str
    # What the run has used. Null if an older version wrote the run's last event, as are `paused`, `asks` and `waits`;
    # get the run itself for these values.
    spent: NotRequired["SpendShape | None"]
    # `running`, or the outcome, or `forgotten`.
    status: str
    title: str
    updated_at: str
    # Whether everything in the run waits, for people or for a time, or is paused: nobody needs to drive it meanwhile.
    waits: NotRequired[bool | None]


class SaidShape(TypedDict):
    """Messages of the history of a thread: a list like all others."""

    # The last commit that the answer takes into account.
    as_of: int
    # The messages, oldest first.
    items: list["Numbered"]
    # The same as `items`, under the name that they had before, unless they are not wanted twice.
    messages: NotRequired[list["Numbered"]]
    # The number of the first message after those given here, which continues as `cursor` or as `from`; null at the
    # end.
    next: NotRequired[int | None]
    # The number of messages in this answer.
    returned: int
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of messages in the history.
    total: int


class ScratchItem(TypedDict):
    """A note, a todo or a task, as programs get it."""

    # The text; of a long text, the beginning.
    body: str
    # Where the whole text is kept, if `body` is only its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # When the item was made, in nanoseconds since 1970. No two items of a space share this value.
    created_at_nanoseconds: int
    # Why the content was erased, if it was.
    erased: NotRequired[str | None]
    # The item's handle, such as `e42`.
    handle: str
    # The item's permanent id.
    item_id: str
    # `note`, `todo`, `task`.
    kind: str
    # When the claim of `owner` ends: from then on, anybody may claim the work. A claim without it has no end.
    lease_until: NotRequired[str | None]
    # Who has claimed the work, or is meant to do it; absent if that is anybody.
    owner: NotRequired[str | None]
    # The phase of a task.
    phase: NotRequired[str | None]
    # Whether the item is pinned.
    pinned: bool
    # The progress of a task, from 0 to 1.
    progress: NotRequired[float | None]
    # The item's status.
    status: str
    # Tags to find the item by.
    tags: list[str]
    # The title, in one line.
    title: str
    # When the item last changed, in nanoseconds since 1970.
    updated_at_nanoseconds: int
    # Counts the item's revisions, from 1.
    version: int


class SectionReceipt(TypedDict):
    """The account of one section."""

    # The number of further entries that were not looked at, because the section had reached its maximum number of
    # lines.
    beyond: NotRequired[int]
    # The entries that are shown by the line of an equal one (M7.3.27), or by a line of another section that says the
    # same.
    folded: NotRequired[list["Folded"]]
    # The entries that are not shown.
    omitted: list["Omitted"]
    # The tokens reserved for the section.
    reserved: int
    # The name of the section: `tasks`, `scratch_page`.
    section: str
    # The section's share of the budget, in percent.
    share: int
    # The names of entries that are shown shortened.
    shortened: list[str]
    # The names of entries that are shown whole.
    shown: list[str]
    # The tokens that the section used.
    tokens: int


class SectionShape(TypedDict):
    """A section of an assembled context."""

    # The section's name: `scratch_page`, `scratchbook`, `pages`, `episodic` or `semantic`.
    section: str
    # The section's text for the model; empty if there is nothing to show or no room.
    text: str
    # The number of tokens of the section.
    tokens: int


class Seen(TypedDict):
    """The part of memory that a tool asked for and may see."""

    # The entries that the tool may see, best match first.
    scratch_page_context: list["ContextItem"]


class Settled(TypedDict):
    """The resolution of an observation."""

    # Whether the observation was confirmed or refuted, if that is known. Calibration counts these outcomes.
    outcome: NotRequired["CameTrue | None"]
    # The reason, in words.
    reason: NotRequired[str | None]


class ShownShape(TypedDict):
    """What happened to an entry in a view or a context."""

    # The last commit that it takes into account.
    as_of: int
    # When it was made.
    at: str
    # Its budget in tokens.
    budget: int
    # What happened to the entry in it, in words: that it was shown, or why not.
    fate: str
    # The hash of its text.
    hash: str
    # `view` or `context`.
    of: str
    # The thread that it is of.
    thread: NotRequired[str | None]
    # The number of its tokens.
    tokens: int


class SideShape(TypedDict):
    """One of two runs that are compared."""

    # How long it took; null until it has ended.
    duration_ms: NotRequired[int | None]
    # Its goal.
    goal: str
    # Its inputs.
    inputs: Any
    # The number of its nodes.
    nodes: int
    # The notes of its result.
    notes: str
    # The run's handle.
    run: str
    # The run's permanent id.
    run_id: str
    # What it has used.
    spent: "SpendShape"
    # How it ended, `running`, or `interrupted` if it has something to do and no process drives it.
    status: str
    # Why it ended as it did.
    stop_reason: NotRequired[str | None]
    # The title of its plan.
    title: str


class SnippetPart(TypedDict):
    """A piece of a [`Snippet`]."""

    # Whether the piece matches the query.
    hit: bool
    # The text of the piece, with line ends replaced by spaces.
    text: str


class Source(TypedDict):
    """The source of an observation."""

    # The part of the tool's answer that contained it.
    channel: NotRequired[str | None]
    # The node of that run.
    node_id: NotRequired[str | None]
    # The run in which it was added.
    run_id: NotRequired[str | None]
    # When it was added.
    timestamp: str
    # The tool that added it; null for people and roles.
    tool: NotRequired[str | None]
    # The turn in which it was added.
    turn_id: NotRequired[str | None]


class SpaceShape(TypedDict):
    """A space, with the caller's role and name."""

    # The caller's name; empty if there is none.
    name: str
    # The caller's role there: `human`, `client`, `tool`, ….
    role: str
    space: str


class SpendShape(TypedDict):
    """What was used. Fields that are zero are left out."""

    # The cost in millionths of a US dollar, as far as prices are known.
    micro_usd: NotRequired[int]
    # The number of model calls.
    model_calls: NotRequired[int]
    # The part of `tokens_in` that the provider read from its cache.
    tokens_cached: NotRequired[int]
    # Input tokens of models.
    tokens_in: NotRequired[int]
    # Output tokens of models.
    tokens_out: NotRequired[int]
    # The number of tool calls.
    tool_calls: NotRequired[int]
    # The number of model calls whose price is unknown; `micro_usd` does not include them.
    unpriced_calls: NotRequired[int]


class StepState(TypedDict):
    """The state of one step of a plan."""

    # Whether an edit may change it.
    editable: bool
    # The id (slug) of the step in the plan.
    id: str
    # `waiting`, `running`, `waiting_input` or `awaiting_approval` if a person is asked, `superseded` if another plan
    # replaced it, or the outcome.
    status: str
    # The title of the step, one line for people.
    title: str


class Stored(TypedDict):
    """An item in its stored form."""

    # The rule by which it was archived, if no actor did it.
    archived_for: NotRequired[str | None]
    # The source that its writer stated.
    claimed_source: NotRequired[Any]
    # The writer's confidence, from 0 to 1.
    confidence: NotRequired[float | None]
    # The text of the observation; only the beginning if it is long.
    content: str
    # Where a long text is kept. `content` is then its beginning, or the whole text if that was requested.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about, as JSON; null if not given.
    context: NotRequired[Any]
    # When the observation was added.
    created_at: str
    # Why its content was erased, if it was.
    erased: NotRequired[str | None]
    # When its lifetime ends; null for never.
    expires_at: NotRequired[str | None]
    # The observation's handle, such as `e42`.
    handle: str
    # The kind of entry that it became: `observation`, or `note` for an item of `memory_writes`.
    kind: str
    # Any other data; null if not given.
    metadata: NotRequired[Any]
    # The observation's permanent id.
    observation_id: str
    # Whether it was confirmed or refuted later.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # The kinds of personal data that were detected in it.
    pii: NotRequired[list[str]]
    # Its position among the pinned entries of its page.
    pinned: NotRequired[int | None]
    # How well it matches the text searched for.
    score: NotRequired[float | None]
    # Where it came from. Folio stamps the source and never takes it from the request.
    source: "Source"
    # The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    state: str
    # The status that its writers gave it.
    status: str
    # The entry that superseded it.
    superseded_by: NotRequired[str | None]
    # The observation's tags.
    tags: list[str]
    # The observation's title.
    title: NotRequired[str]
    # How far to trust its content: `user`, `model`, `tool_internal`, `tool_external` or `imported`.
    trust: str
    # Its lifetime in minutes; null if it has no end.
    ttl_minutes: NotRequired[float | None]
    # The registered type of the observation.
    type: NotRequired[str | None]
    # When the observation last changed.
    updated_at: str
    # When it was last confirmed, if it was. Its lifetime counts from then.
    validated_at: NotRequired[str | None]
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int


class StreamEnd(TypedDict):
    """The data of the message `end`, the last of a stream."""

    # The status with which the run ended.
    status: NotRequired[str | None]


class StreamGap(TypedDict):
    """The data of the message `gap`: the last event id that the client sent is not known here."""

    # In the stream of a space: the commit after which the stream continues.
    head: NotRequired[int | None]
    # What follows in the stream, in words.
    reason: str


class Successor(TypedDict):
    """The observation that supersedes this one."""

    # The superseding observation: `e42` or `obs_…`.
    by: str
    # Whether the superseded observation was confirmed or refuted, if that is known. Calibration counts these
    # outcomes.
    outcome: NotRequired["CameTrue | None"]
    # The reason, in words.
    reason: NotRequired[str | None]


class TakenIn(TypedDict):
    """The outcome of ingesting an answer, item by item."""

    # The items that were rejected, and why.
    rejected: list["Rejection"]
    # How many of the stored items had been stored by an earlier call.
    replayed: NotRequired[int]
    # How many items wait in the outbox until the store can be written.
    spooled: NotRequired[int]
    # The items that are stored as entries now.
    stored: list["Stored"]
    # Warnings about the turn in which they were written: that it has ended.
    turn_warnings: NotRequired[list["Warning"]]
    # Values that were corrected on input.
    warnings: list["Correction"]


class Talk(TypedDict):
    """A conversation, and when to offload its older messages."""

    # Whether to offload all messages that need not stay, however few they are.
    force: NotRequired[bool]
    # The number of messages at the end that stay, as far as there is room for them.
    keep: NotRequired[int]
    # The messages, in the format of OpenAI or Anthropic, or a mixture of both.
    messages: Any
    # The model whose tokens are counted; without it, tokens are estimated.
    model: NotRequired[str | None]
    # The share of the window from which on messages are offloaded.
    share: NotRequired[float]
    # The budget in tokens of the message that replaces the offloaded ones.
    summary: NotRequired[int]
    # The size of the model's context window in tokens.
    window: NotRequired[int]


class ToolRequest(TypedDict):
    """A request to a tool."""

    # The inputs of the tool.
    inputs: NotRequired[Any]
    # The id of the request.
    request_id: NotRequired[str]
    # The query for the scratch page: filters and a limit.
    scratch_page_query: NotRequired[Any]
    # The name of the tool.
    tool_id: NotRequired[str]


class ToolResponse(TypedDict):
    """A tool's answer."""

    # What the tool considers worth remembering for longer.
    memory_writes: NotRequired[Any]
    # The observations of the tool.
    observations: NotRequired[Any]
    # The result of the call.
    outputs: NotRequired[Any]
    # The id of the request that it answers.
    request_id: NotRequired[str]
    # What the tool was told to put on the scratch page.
    scratch_page_writes: NotRequired[Any]
    # The status of the call. Everything but a word for failure, in any case, counts as success.
    status: NotRequired[Any]
    # The tool that answers. Also accepted as `tool`.
    tool_id: NotRequired[str]


class TraceLine(TypedDict):
    """One line of the trace."""

    # The part of the program that did it.
    component: str
    # Details by name: `text` (a short description), `fields` (the changed fields), `verdict` (of a decision),
    # `outcome` (of a finished node), `code` and `error` (of a failure or refusal), `filters` (of a query), `reason`
    # (as given).
    detail: NotRequired[dict[str, Any] | None]
    # The duration in microseconds, if it was measured.
    duration_us: NotRequired[int | None]
    # The node of the run at which it happened.
    node_id: NotRequired[str | None]
    # The id of the entry concerned.
    observation_id: NotRequired[str | None]
    # The type of the observation, or the kind of any other entry.
    observation_type: NotRequired[str | None]
    # The operation.
    operation: str
    # The id of the page concerned, if it was not an entry.
    page_id: NotRequired[str | None]
    # The run in which it happened.
    run_id: NotRequired[str | None]
    # The number of the commit.
    seq: int
    # Who did it: the name, or the role if there is no name.
    source: str
    # The outcome: `success`, `warning`, `denied`, `rejected` or `failed`.
    status: str
    # When it happened.
    timestamp: str
    # The turn in which it happened.
    turn_id: NotRequired[str | None]
    # The entries that a decision used.
    used: NotRequired[list[str]]


class TreeShape(TypedDict):
    """A run's tree, and the event after which its live stream continues."""

    driven: bool
    handle: str
    # The last event that the tree includes: request the events after it.
    last_event_id: int
    # The `cursor` for the nodes after these; null at the end.
    next: NotRequired[str | None]
    # The nodes: parents before children, children in plan order.
    nodes: list["NodeShape"]
    run_id: str
    status: str
    title: str
    # The number of all nodes.
    total: int


class TurnShape(TypedDict):
    """A turn."""

    # The last commit that the turn takes into account.
    as_of: int
    # Whether it runs in the background: nobody waits for it.
    background: bool
    # Whether nothing was left to do; null while it is open.
    complete: NotRequired[bool | None]
    # The decisions of the stages, with the entries that they used.
    decisions: list["Decision2"]
    # When the turn ended; null while it is open.
    ended_at: NotRequired[str | None]
    # The hash of its export; null while it is open.
    export: NotRequired[str | None]
    # The turn's handle, such as `t5`.
    handle: str
    # The input that the turn handles.
    input: str
    # The id of the run whose turn this is.
    run_id: NotRequired[str | None]
    # When the turn began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # The thread of the turn.
    thread: str
    # The number of entries that it touched; null while it is open.
    touched: NotRequired[int | None]
    # The turn's permanent id.
    turn_id: str
    # The urgency that the router decided on.
    urgency: NotRequired[str | None]


class Used(TypedDict):
    """An entry that a decision rests on, in the version that was read."""

    # The entry's handle.
    handle: str
    # The entry's id.
    observation_id: str
    # The version that was read.
    version: int


class VerdictShape(TypedDict):
    """VerdictShape"""

    criterion: str
    finding: str
    required: bool
    why: NotRequired[str | None]


class VersionShape(TypedDict):
    """One version of an entry."""

    # Who made it.
    by: str
    # The differences from the version before; for the first version, all fields.
    changes: list["FieldDiff"]
    # Fields that it overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # The operation that made it.
    operation: str
    # The reason that the writer gave.
    reason: NotRequired[str | None]
    # The commit that made it.
    seq: int
    # When it was made.
    timestamp: str
    # The number of the version.
    version: int


class ViewShape(TypedDict):
    """The view of a scratchbook."""

    # The last commit that the view takes into account.
    as_of: int
    # The first forty live items of the scratchbook.
    items: list["ScratchItem"]
    # Where the view belongs in a request to a model.
    placement: "Placement"
    # The receipt: what is shown whole, shortened and left out.
    receipt: "Receipt"
    # The number of tokens of the text.
    tokens: int
    # The text for the model.
    view: str


class Warning(TypedDict):
    """A value that was corrected. The answer reports it, and so does the trace (M7.1.4, M7.3.21)."""

    # A stable code, such as `confidence_clamped`.
    code: str
    # The value as it was sent: a number as a number, or as text if JSON has no such number.
    given: Any
    # What was corrected, in words.
    message: str
    # The value that is used instead.
    used: Any


class WholePolicy(TypedDict):
    """A policy to be set, as GET returns it. The document alone is accepted, too."""

    # The commit that last changed it, if it is sent back; it follows from the version.
    changed_seq: NotRequired[int | None]
    # All values in force, if they are sent back; they must be those of the policy that this one replaces.
    in_force: NotRequired[dict[str, Any] | None]
    # The document, with all that is to differ from the built-in values.
    policy: dict[str, Any]
    # The reason to record.
    reason: NotRequired[str | None]
    # The space, if it is sent back; it must be the one that the path names.
    space: NotRequired[str | None]
    # The version of the policy that this one replaces. The header `If-Match` has the same effect.
    version: NotRequired[int | None]


class Why(TypedDict):
    """The reason for an action."""

    # The reason, in words.
    reason: NotRequired[str | None]


class WhyShape(TypedDict):
    """The decisions that rest on an entry, and what models were shown of it."""

    # The last commit that the answer takes into account.
    as_of: int
    # Whether more than `total` match: counting stopped at that number.
    at_least: NotRequired[bool]
    # The items, in the requested order.
    items: list["DecisionInTurn"]
    # The `cursor` for the next part of the list; null at the end.
    next: NotRequired[str | None]
    # The number of items in this answer.
    returned: int
    # What happened to the entry in each view and context of the turn; only if one turn was asked about.
    shown: NotRequired[list["ShownShape"]]
    # The estimated number of tokens that a model needs to read the items as JSON.
    tokens: int
    # The number of all matches; null where they are not counted.
    total: NotRequired[int | None]


class WrittenAnyEntry(TypedDict):
    """The result of a write."""

    # The rule by which it was archived, if no actor did it.
    archived_for: NotRequired[str | None]
    # The text; of a long text, the beginning.
    body: NotRequired[str]
    # Where the whole text is kept, if `body` is only its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # The source that its writer stated.
    claimed_source: NotRequired[Any]
    # The writer's confidence, from 0 to 1.
    confidence: NotRequired[float | None]
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # The text of the observation; only the beginning if it is long.
    content: NotRequired[str]
    # Where a long text is kept. `content` is then its beginning, or the whole text if that was requested.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about, as JSON; null if not given.
    context: NotRequired[Any]
    # When the observation was added.
    created_at: NotRequired[str]
    # When the item was made, in nanoseconds since 1970. No two items of a space share this value.
    created_at_nanoseconds: NotRequired[int]
    erased: NotRequired[str | None]
    # When its lifetime ends; null for never.
    expires_at: NotRequired[str | None]
    handle: str
    # The item's permanent id.
    item_id: NotRequired[str]
    # `note`, `todo`, `task`.
    kind: NotRequired[str]
    # When the claim of `owner` ends: from then on, anybody may claim the work. A claim without it has no end.
    lease_until: NotRequired[str | None]
    # Any other data; null if not given.
    metadata: NotRequired[Any]
    # The observation's permanent id.
    observation_id: NotRequired[str]
    # Whether it was confirmed or refuted later.
    outcome: NotRequired[str | None]
    owner: NotRequired[str | str | None]
    # The phase of a task.
    phase: NotRequired[str | None]
    # The kinds of personal data that were detected in it.
    pii: NotRequired[list[str]]
    pinned: NotRequired[int | None | bool]
    # The progress of a task, from 0 to 1.
    progress: NotRequired[float | None]
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # How well it matches the text searched for.
    score: NotRequired[float | None]
    # Where it came from. Folio stamps the source and never takes it from the request.
    source: NotRequired["Source"]
    # The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    state: NotRequired[str]
    status: str
    # The entry that superseded it.
    superseded_by: NotRequired[str | None]
    tags: list[str]
    title: NotRequired[str]
    # How far to trust its content: `user`, `model`, `tool_internal`, `tool_external` or `imported`.
    trust: NotRequired[str]
    # Its lifetime in minutes; null if it has no end.
    ttl_minutes: NotRequired[float | None]
    # The registered type of the observation.
    type: NotRequired[str | None]
    # When the observation last changed.
    updated_at: NotRequired[str]
    # When the item last changed, in nanoseconds since 1970.
    updated_at_nanoseconds: NotRequired[int]
    # When it was last confirmed, if it was. Its lifetime counts from then.
    validated_at: NotRequired[str | None]
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenEntryShape(TypedDict):
    """The result of a write."""

    # The text; only the beginning if it is long.
    body: str
    # Where the whole of a long text is kept, of which `body` is the beginning.
    body_ref: NotRequired["BodyRef | None"]
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # When it was added.
    created_at: str
    # The entry's permanent id.
    entry_id: str
    # The entry's handle, such as `e42`.
    handle: str
    # The version of the plan during which it was written.
    iteration: NotRequired[int | None]
    # The entry's kind.
    kind: str
    # The parts of a structured block.
    parts: NotRequired[Any]
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # The status of the entry.
    status: str
    # Its tags.
    tags: list[str]
    # The entry's title.
    title: str
    # The registered type of an observation.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenObservation(TypedDict):
    """The result of a write."""

    # The rule by which it was archived, if no actor did it.
    archived_for: NotRequired[str | None]
    # The source that its writer stated.
    claimed_source: NotRequired[Any]
    # The writer's confidence, from 0 to 1.
    confidence: NotRequired[float | None]
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # The text of the observation; only the beginning if it is long.
    content: str
    # Where a long text is kept. `content` is then its beginning, or the whole text if that was requested.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about, as JSON; null if not given.
    context: NotRequired[Any]
    # When the observation was added.
    created_at: str
    # Why its content was erased, if it was.
    erased: NotRequired[str | None]
    # When its lifetime ends; null for never.
    expires_at: NotRequired[str | None]
    # The observation's handle, such as `e42`.
    handle: str
    # Any other data; null if not given.
    metadata: NotRequired[Any]
    # The observation's permanent id.
    observation_id: str
    # Whether it was confirmed or refuted later.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # The kinds of personal data that were detected in it.
    pii: NotRequired[list[str]]
    # Its position among the pinned entries of its page.
    pinned: NotRequired[int | None]
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # How well it matches the text searched for.
    score: NotRequired[float | None]
    # Where it came from. Folio stamps the source and never takes it from the request.
    source: "Source"
    # The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    state: str
    # The status that its writers gave it.
    status: str
    # The entry that superseded it.
    superseded_by: NotRequired[str | None]
    # The observation's tags.
    tags: list[str]
    # The observation's title.
    title: NotRequired[str]
    # How far to trust its content: `user`, `model`, `tool_internal`, `tool_external` or `imported`.
    trust: str
    # Its lifetime in minutes; null if it has no end.
    ttl_minutes: NotRequired[float | None]
    # The registered type of the observation.
    type: NotRequired[str | None]
    # When the observation last changed.
    updated_at: str
    # When it was last confirmed, if it was. Its lifetime counts from then.
    validated_at: NotRequired[str | None]
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenPageShape(TypedDict):
    """The result of a write."""

    # The path of the task whose branch this page is.
    branch_id: NotRequired[str | None]
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # When it was added.
    created_at: str
    # The page's handle, such as `p7`.
    handle: str
    # The id of the run that it belongs to.
    homework_run_id: NotRequired[str | None]
    # The version of the plan during which it was written.
    iteration: NotRequired[int | None]
    # The link to this page from the page that contains it; empty for a page that none contains.
    links: list["LinkShape"]
    # The page's owner.
    owner: str
    # The page's permanent id.
    page_id: str
    # The id of the page that contains it.
    parent: NotRequired[str | None]
    # The properties that seed 000 names.
    props: Any
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # The page role, which says what the page is for.
    role: str
    # The status of the work on it.
    status: str
    # Its tags.
    tags: list[str]
    # The thread that it belongs to.
    thread: NotRequired[str | None]
    # The page's title.
    title: str
    # The name that seed 000 has for the page's role.
    type_key: str
    # When it last changed.
    updated_at: str
    # The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenPolicyShape(TypedDict):
    """The result of a write."""

    # The commit that last changed it; 0 if none did.
    changed_seq: int
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # All values in force.
    in_force: dict[str, Any]
    # The document: what differs from the built-in values.
    policy: dict[str, Any]
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # The space.
    space: str
    # The version of the policy; 0 if nobody has set one.
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenRunInFull(TypedDict):
    """The result of a write."""

    # The number of open questions to people and of plans, calls and checks that wait for approval.
    asks: int
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # The number of ended nodes, by outcome. Those that another version of a plan replaced are `replaced`.
    counts: dict[str, int]
    created_at: str
    # Whether a live process drives it. A run that is `running` but not driven waits to be resumed, unless it `waits`
    # for something else.
    driven: bool
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    # What is still known of the run if its status is `forgotten`.
    forgotten: NotRequired["ForgottenShape | None"]
    # The moment of another run at which it was forked, if it is a fork.
    forked_from: NotRequired["OriginShape | None"]
    goal: str
    handle: str
    # The last commit of its journal.
    head: int
    # What keeps one of its calls waiting, if anything does.
    held_up: NotRequired["HeldUpShape | None"]
    # The number of nodes whose call is under way.
    in_flight: int
    inputs: Any
    # The number of nodes created so far.
    nodes_total: int
    # The handles of the run's pages by purpose: `workspace`, `main`, `plan`, `summary`, `report`.
    pages: dict[str, str]
    # The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    # were made again (E9.9).
    paid_twice: NotRequired[int]
    # Whether the whole run is paused: no call begins until somebody continues it.
    paused: bool
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    result: NotRequired["ResultShape | None"]
    run_id: str
    # What the run has used.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    # `running`, or the outcome, or `forgotten`.
    status: str
    title: str
    # The turn that it belongs to: its own, or the one in which it was started.
    turn_id: NotRequired[str | None]
    updated_at: str
    # Whether everything in the run waits, for people or for a time, or is paused: nobody needs to drive it meanwhile.
    waits: bool
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


class WrittenScratchItem(TypedDict):
    """The result of a write."""

    # The text; of a long text, the beginning.
    body: str
    # Where the whole text is kept, if `body` is only its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # Fields that this write overwrote although somebody else had changed them in the meantime.
    conflicts: NotRequired[list["FieldConflict"]]
    # When the item was made, in nanoseconds since 1970. No two items of a space share this value.
    created_at_nanoseconds: int
    # Why the content was erased, if it was.
    erased: NotRequired[str | None]
    # The item's handle, such as `e42`.
    handle: str
    # The item's permanent id.
    item_id: str
    # `note`, `todo`, `task`.
    kind: str
    # When the claim of `owner` ends: from then on, anybody may claim the work. A claim without it has no end.
    lease_until: NotRequired[str | None]
    # Who has claimed the work, or is meant to do it; absent if that is anybody.
    owner: NotRequired[str | None]
    # The phase of a task.
    phase: NotRequired[str | None]
    # Whether the item is pinned.
    pinned: bool
    # The progress of a task, from 0 to 1.
    progress: NotRequired[float | None]
    # Whether an earlier call with the same key had written it already.
    replayed: NotRequired[bool]
    # The item's status.
    status: str
    # Tags to find the item by.
    tags: list[str]
    # The title, in one line.
    title: str
    # When the item last changed, in nanoseconds since 1970.
    updated_at_nanoseconds: int
    # Counts the item's revisions, from 1.
    version: int
    # Values that were corrected on input.
    warnings: NotRequired[list["Warning"]]


CameTrue: TypeAlias = Literal['confirmed'] | Literal['refuted']


# The part of an answer that an item was in.
Channel: TypeAlias = Literal['observations'] | Literal['scratch_page_writes'] | Literal['memory_writes'] | Literal['observe']


# An entry in the form in which its lists show it.
Current: TypeAlias = Observation | ScratchItem


# The body of the request, which has no fields.
End: TypeAlias = dict[str, Any]


# The kind of content that an entry holds.
EntryKind: TypeAlias = Literal['observation'] | Literal['note'] | Literal['todo'] | Literal['task'] | Literal['goal'] | Literal['pending_action'] | Literal['step'] | Literal['log'] | Literal['summary']


# What happened to an item of a file.
Fate: TypeAlias = Literal['changed'] | Literal['merged'] | Literal['differs'] | Literal['refused']


Form: TypeAlias = Literal['folio', 'colony']


# The kind of an item.
ItemKind: TypeAlias = Literal['note', 'todo', 'task']


# Which criteria a judge decides.
Judged: TypeAlias = Literal['wanted'] | Literal['all']


# How many of the words searched for must match.
Match: TypeAlias = Literal['all', 'any']


# Where the view stands in the request.
Placement: TypeAlias = Literal['system'] | Literal['tail']


# When models split tasks into steps.
Planning: TypeAlias = Literal['always'] | Literal['auto'] | Literal['never']


# The origin of a result. Only results of tools are put away: the others can be read again from their origin.
ResultOf: TypeAlias = Literal['tool'] | Literal['file'] | Literal['memory']


# An event of a run. It holds only what is new: a client that applies every event to the tree has the current tree.
RunEvent: TypeAlias = dict[str, Any]


# The data of a message of a stream of a run.
RunMessage: TypeAlias = RunEvent | StreamEnd | StreamGap | Problem


# Sections of a context: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
Sections: TypeAlias = list[str] | dict[str, int]


# A part of a text on one line, in consecutive pieces.
Snippet: TypeAlias = list[SnippetPart]


# The data of a message of a stream of a space.
SpaceMessage: TypeAlias = CommitShape | StreamGap | Problem


# A stage of a turn (M7.11.1).
Stage: TypeAlias = Literal['router'] | Literal['clarifier'] | Literal['executor'] | Literal['evaluator'] | Literal['reflector']


# The status of a run.
Status: TypeAlias = Literal['running', 'ok', 'partial', 'failed', 'cancelled', 'forgotten']


# How far to believe content. Ordered: derived content is only as trustworthy as its weakest source.
Trust: TypeAlias = Literal['imported'] | Literal['tool_external'] | Literal['tool_internal'] | Literal['model'] | Literal['user']


Way: TypeAlias = Literal['newest', 'oldest', 'priority', 'relevance']
