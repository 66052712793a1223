"""The shapes of what Folio takes and gives, as `docs/openapi.json` has them.

Made by `tools/shapes.py`; changed there and nowhere else.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Alive(TypedDict):
    """That it answers."""

    status: str


class AnswerInput(TypedDict):
    """What is answered."""

    # What was said.
    answer: str


class Begin(TypedDict):
    """An input that a turn is to handle."""

    # Whether nobody waits for it.
    background: NotRequired[bool]
    # Give what of memory goes into the prompt, too, within so many tokens.
    budget: NotRequired[int | None]
    # What came in.
    input: NotRequired[str]
    # Whose tokens are counted; without it, they are estimated.
    model: NotRequired[str | None]
    # In which thread; the main one if it is not said.
    thread: NotRequired[str | None]


class BegunShape(TypedDict):
    """A turn that has just begun."""

    # The confirmation that the input answered.
    answered: NotRequired["Observation | None"]
    # The commit up to which it knows.
    as_of: int
    # Whether nobody waits for it.
    background: bool
    # Whether nothing was left to do; none as long as it goes on.
    complete: NotRequired[bool | None]
    # What of memory goes into the prompt.
    context: NotRequired["ContextShape | None"]
    # What the stages decided, and which entries they used.
    decisions: list["Decision2"]
    # When it ended; null as long as it goes on.
    ended_at: NotRequired[str | None]
    # The hash of its export, once it has ended.
    export: NotRequired[str | None]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What came in.
    input: str
    # What is the agent's to act on, first things first.
    order: list["Used"]
    # What has to be asked.
    question: NotRequired["Observation | None"]
    # Whether an earlier call with the same key began it.
    replayed: NotRequired[bool]
    # The run that it is the turn of.
    run_id: NotRequired[str | None]
    # When it began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # In which thread.
    thread: str
    # How many entries it touched, once it has ended.
    touched: NotRequired[int | None]
    # For ever.
    turn_id: str
    # How soon it is to be handled.
    urgency: NotRequired[str | None]


# Stated confidences of one range, and what became of them.
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

    # How long it is.
    bytes: int
    # The SHA-256 of the piece, by which it is found.
    hash: str
    # Ends of lines in it.
    newlines: int


class BodyRef(TypedDict):
    """A text that is kept beside the entry."""

    # How long it is.
    bytes: int
    # The SHA-256 of the text, by which it is found; of one in pieces the SHA-256 of the hashes of its pieces.
    hash: str
    # The pieces that it is kept in, in order. Empty for a text that is kept as one.
    pieces: NotRequired[list["BodyPiece"]]


CameTrue: TypeAlias = Literal['confirmed'] | Literal['refuted']


class ChangeShape(TypedDict):
    """One thing that a commit did to memory."""

    # What was done.
    change: str
    # The fields that were set.
    fields: NotRequired[list[str]]
    # What sort of content that holds.
    kind: NotRequired[str | None]
    # The entry that it was done to.
    observation_id: NotRequired[str | None]
    # The page that it was done to, or on.
    page_id: NotRequired[str | None]


# In which part of an answer something stood.
Channel: TypeAlias = Literal['observations'] | Literal['scratch_page_writes'] | Literal['memory_writes'] | Literal['observe']


class CommitShape(TypedDict):
    """A commit."""

    # Who: the role, and the name if there is one.
    by: str
    # What it did to memory, in order.
    changes: list["ChangeShape"]
    # What happened in the run, in order.
    events: list[str]
    # In which run, or of which.
    run_id: NotRequired[str | None]
    # Its number in the space.
    seq: int
    # When.
    timestamp: str
    # In which turn.
    turn_id: NotRequired[str | None]


class ContextItem(TypedDict):
    """An observation as a tool sees it (seed 004)."""

    # How sure its writer was.
    confidence: NotRequired[float | None]
    # What it says.
    content: str
    # What it is about.
    context: NotRequired[Any]
    # When it was added.
    created_at: str
    # When it stops to hold.
    expires_at: NotRequired[str | None]
    # In its space.
    handle: str
    # For ever.
    id: str
    # Who should act.
    owner: str
    # Its status.
    status: str
    # What took its place.
    superseded_by: NotRequired[str | None]
    # Its tags.
    tags: list[str]
    # Its type.
    type: NotRequired[str | None]


class ContextShape(TypedDict):
    """What of memory goes into a prompt."""

    # What a model reads.
    context: str
    # What it holds, shortens and leaves out.
    receipt: "Receipt"
    # The same by section: those that were asked for, in the order in which they stand there.
    sections: list["SectionShape"]
    # What that costs.
    tokens: int


class Conversation(TypedDict):
    """The conversation as it goes on."""

    # The messages.
    messages: list[Any]
    # What was put away, and where it is.
    receipt: "OffloadReceipt"


class Correction(TypedDict):
    """Something of an item that was put right."""

    # Which array.
    channel: "Channel"
    # A stable name, such as `confidence_clamped`.
    code: str
    # The value as it came, a number as a number; words where it is none that JSON has.
    given: Any
    # Its place in its array, from 0.
    index: int
    # What happened, in words.
    message: str
    # The value that is used instead.
    used: Any


class CriterionShape(TypedDict):
    """CriterionShape"""

    id: str
    # Whether the result fails without it.
    required: bool
    text: str


# An entry as the lists that it is in show it.
Current: TypeAlias = "Observation | ScratchItem"


class Decision(TypedDict):
    """A yes or a no."""

    # With a yes to a call: what of the run needs no other yes from now on, `tool` or `arguments`.
    always: NotRequired[str | None]
    approve: bool
    # With a no: why.
    reason: NotRequired[str]


class Decision2(TypedDict):
    """What a stage decided. It stands in the log with the turn, so that "which observation changed which decision"
    has an answer for as long as the log is kept."""

    # Why, in words.
    reasons: NotRequired[list[str]]
    # The stage.
    stage: "Stage"
    # The entries that made a difference, sorted, each once.
    used: NotRequired[list["Used"]]
    # What came out, in a word: `high`, `clear`, `complete` …
    verdict: str


class EditedShape(TypedDict):
    """What became of an edit."""

    difference: Any
    # The same steps as people edit them.
    markdown: str
    node_id: str
    path: str
    plan_version: int
    run_id: str
    states: list["StepState"]
    # In the form in which plans are written.
    steps: Any


# Nothing need be said.
End: TypeAlias = dict[str, Any]


class EndedShape(TypedDict):
    """A turn that has just ended."""

    # What was archived.
    archived: list["Used"]
    # The commit up to which it knows.
    as_of: int
    # Whether nobody waits for it.
    background: bool
    # Whether nothing was left to do; none as long as it goes on.
    complete: NotRequired[bool | None]
    # What the stages decided, and which entries they used.
    decisions: list["Decision2"]
    # When it ended; null as long as it goes on.
    ended_at: NotRequired[str | None]
    # The hash of its export, once it has ended.
    export: NotRequired[str | None]
    # Goals and pending actions, as far as they are.
    goals: list["GoalShape"]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What came in.
    input: str
    # Patterns that were not known before.
    patterns: list["FoundPattern"]
    # Observations that could be made goals.
    proposals: list["Proposal"]
    # Whether an earlier call with the same key ended it.
    replayed: NotRequired[bool]
    # The run that it is the turn of.
    run_id: NotRequired[str | None]
    # When it began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # In which thread.
    thread: str
    # How many entries it touched, once it has ended.
    touched: NotRequired[int | None]
    # For ever.
    turn_id: str
    # How soon it is to be handled.
    urgency: NotRequired[str | None]


# What sort of content an entry holds.
EntryKind: TypeAlias = Literal['observation'] | Literal['note'] | Literal['todo'] | Literal['task'] | Literal['goal'] | Literal['pending_action'] | Literal['step'] | Literal['log'] | Literal['summary']


class EntryShape(TypedDict):
    """What is on a page."""

    # The text; of a long one the beginning.
    body: str
    # Where the whole is of a long text, of which `body` is the beginning.
    body_ref: NotRequired["BodyRef | None"]
    # When it was added.
    created_at: str
    # For ever.
    entry_id: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # The version of the plan in which it was written.
    iteration: NotRequired[int | None]
    # What sort of content it holds.
    kind: str
    # The parts of a structured block.
    parts: NotRequired[Any]
    # Where its work stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # What it is called.
    title: str
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int


class EvictedShape(TypedDict):
    """What goes into a prompt."""

    # How long it is.
    bytes: int
    # The SHA-256 of the result.
    hash: NotRequired[str | None]
    # How many lines it has.
    lines: int
    # The result itself, or what stands for it.
    preview: str
    # What it is read by; nothing if the result stands here itself.
    ref: NotRequired[str | None]
    # What that costs.
    tokens: int


class EvidenceShape(TypedDict):
    """EvidenceShape"""

    hash: NotRequired[str | None]
    id: str
    kind: str
    span: NotRequired[str | None]


class ExportShape(TypedDict):
    """What a turn left behind."""

    as_of: int
    at: str
    # Every entry of the space by version and hash (M7.6.47).
    manifest: list[Any]
    # The entries that it touched, as they were then, with the version that it found.
    touched: list[Any]
    turn_id: str


# What became of something that a file has.
Fate: TypeAlias = Literal['changed'] | Literal['merged'] | Literal['differs'] | Literal['refused']


class FieldConflict(TypedDict):
    """A field that two changed without knowing of each other. The later one holds."""

    # The version that the later writer had read.
    base_version: int
    # Its name.
    field: str
    # The value that holds.
    ours: Any
    # The version that it wrote over.
    overwrote_version: int
    # The value that was lost.
    theirs: Any


class FieldDiff(TypedDict):
    """One field before and after."""

    # What it holds.
    after: Any
    # What it held; `null` if nothing.
    before: Any
    # Its name.
    field: str


class Folded(TypedDict):
    """What is shown by the line of something equal."""

    # The line that stands for it.
    into: str
    # By what it can be asked for.
    name: str


class For(TypedDict):
    """What a context is assembled for."""

    # Tokens that it may have; 4,000 if it is not said.
    budget: NotRequired[int | None]
    # Whose tokens are counted; without it, they are estimated.
    model: NotRequired[str | None]
    # What it is for; the input of the turn if it is not said.
    prompt: NotRequired[str]
    # Which sections, by name, or with their shares in per cent; all of them if it is not said.
    sections: NotRequired["Sections | None"]
    # In which thread; the main one if it is not said.
    thread: NotRequired[str | None]
    # In which turn, if in one: `t3` or `turn_…`.
    turn: NotRequired[str | None]


class Forget(TypedDict):
    """What is to be forgotten. What several fields name has to fit all of them."""

    # With these values in their context, by dotted paths.
    context: NotRequired[dict[str, Any]]
    # Only say what would be forgotten.
    dry_run: NotRequired[bool]
    # Which entries: `e42` or `obs_…`. One value may stand for a list of one, here and in the other lists.
    entries: NotRequired[list[str]]
    # Of one of these kinds: `observation`, `note`, `todo`, `task`, ….
    kind: NotRequired[list[str]]
    # Of one of these owners.
    owner: NotRequired[list[str]]
    # Why; it stays, so it should not say what is forgotten.
    reason: NotRequired[str]
    # With all of these tags.
    tags: NotRequired[list[str]]
    # Whatever says this, or said it once.
    text: NotRequired[str | None]
    # Of one of these types.
    type: NotRequired[list[str]]


class Forgot(TypedDict):
    """What was, or would be, forgotten."""

    # Whether nothing was done.
    dry_run: bool
    # The entries, without what they said.
    forgotten: list["Named"]
    # Whether it was asked for before under the same key.
    replayed: NotRequired[bool]
    # What was searched afterwards, and what is left.
    residue: NotRequired["Residue | None"]
    # Items of tools that are no entries yet.
    waiting: int


class ForkInput(TypedDict):
    """Where another run is to begin: either of both."""

    # The node that is to be done anew: its path or its id.
    at: NotRequired[str | None]
    # Whether it begins where this one was before a limit stopped anything.
    before_limit: NotRequired[bool]
    # Whether nothing of it begins before somebody says so.
    paused: NotRequired[bool]


Form: TypeAlias = Literal['folio', 'colony']


class Found(TypedDict):
    """An entry, and where it has what was searched for."""

    # When it was added.
    created_at: str
    # For ever.
    entry_id: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What sort of content it holds.
    kind: str
    # The page that it stands on.
    page_id: str
    # Higher is better; comparable within one answer.
    score: NotRequired[float | None]
    # The part of its text with most of the words, in pieces.
    snippet: "Snippet"
    # Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    state: str
    # Where it stands, as its writers say.
    status: str
    # Words to find it by.
    tags: list[str]
    # One line above it.
    title: str
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str


class FoundLine(TypedDict):
    """A line that holds what was searched for."""

    # Its number, counted from 1.
    line: int
    # The line, or about 300 characters around what was searched for.
    text: str


class FoundPattern(TypedDict):
    """A pattern as the observations have it now."""

    # How sure it is.
    confidence: float
    # What all are about.
    context: NotRequired[Any]
    # The first sighting.
    first_at: str
    # Names the group: class, tags and context.
    group: str
    # Whether it says something that no entry says yet.
    is_news: bool
    # The last sighting.
    last_at: str
    # The observations, oldest first.
    members: list["Used"]
    # Among how many turns in which the group was looked at.
    of_turns: int
    # The entries that say so already, as they were read; a new one takes their place. More than one if two turns
    # ended at the same moment.
    replaces: list["Used"]
    # The facts that follow from it already, as they were read.
    replaces_facts: list["Used"]
    # The tags that all have.
    tags: list[str]
    # The most recent wording.
    text: str
    # The least trust of its members.
    trust: "Trust"
    # In how many turns they were seen.
    turns: int


class GoalShape(TypedDict):
    """A goal or a pending action."""

    # The text; of a long one the beginning.
    body: str
    # Where the whole text is, if `body` is its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # And how many are closed.
    closed: int
    # Since 1970. No two items of a space have the same.
    created_at_nanoseconds: int
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # `e42`.
    handle: str
    # For ever.
    item_id: str
    # What others call it.
    key: NotRequired[Any]
    # `note`, `todo`, `task`.
    kind: str
    # How many of what is linked to it are open.
    open: int
    # The stage of a task.
    phase: NotRequired[str | None]
    # Whether it is kept at the top.
    pinned: bool
    # How far it is, from 0 to 1.
    progress: NotRequired[float | None]
    # Where it stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # One line.
    title: str
    # Since 1970.
    updated_at_nanoseconds: int
    # Counts its revisions, from 1.
    version: int


class HeldUpShape(TypedDict):
    """A call of another run writes what a call of this one is to write, which begins when that has ended."""

    # The handle of the run that writes it.
    by: str
    # What is written: a path or another name.
    name: str


class ItemInput(TypedDict):
    """An item to be."""

    # The text.
    body: NotRequired[str]
    # `note`, `todo` or `task`.
    kind: "ItemKind"
    # The stage of a task.
    phase: NotRequired[str | None]
    # How far a task is, from 0 to 1.
    progress: NotRequired[float | None]
    # Words to find it by.
    tags: NotRequired[list[str]]
    # One line. Left out, the first line of the body serves.
    title: NotRequired[str | None]


# The kind of an item.
ItemKind: TypeAlias = Literal['note', 'todo', 'task']


class ItemPatch(TypedDict):
    """What is to change of an item; what is left out stays."""

    # Another text.
    body: NotRequired[str | None]
    # Another stage.
    phase: NotRequired[str | None]
    # Other progress.
    progress: NotRequired[float | None]
    # Another status, or a synonym of one.
    status: NotRequired[str | None]
    # Other tags, all of them.
    tags: NotRequired[list[str] | None]
    # Another title.
    title: NotRequired[str | None]


# Whose criteria a judge looks at.
Judged: TypeAlias = Literal['wanted'] | Literal['all']


class Large(TypedDict):
    """A result, and what it may cost."""

    # Tokens that the result, or what stands for it, may cost.
    limit: NotRequired[int]
    # Whose tokens are counted.
    model: NotRequired[str | None]
    # What it is of; what can be read again where it came from is never put away.
    of: NotRequired["ResultOf"]
    # The result: a text, or anything as JSON.
    result: Any
    # Which tool gave it.
    tool: NotRequired[str]


class LimitShape(TypedDict):
    """One limit of a part of a run."""

    limit: int
    # How much of that is beyond the limit: what a call came to more than was set aside for it.
    over: NotRequired[int]
    # What is used up, and set aside for calls under way.
    used: int
    # Of what: `tokens`, `tokens_in`, `tokens_cached`, `tokens_out`, `micro_usd`, `model_calls`, `tool_calls`,
    # `bytes`.
    what: str


class LimitsInput(TypedDict):
    """Limits that are to be others. What is left out stays."""

    # Bytes of the journal and of the pages.
    bytes: NotRequired[int | None]
    # When the run has to be over, or a part that says itself how long it may take.
    deadline: NotRequired[str | None]
    # Millionths of a US dollar.
    micro_usd: NotRequired[int | None]
    # Calls of models.
    model_calls: NotRequired[int | None]
    # Nodes of the whole tree, or of a part that says itself how many it may have.
    nodes: NotRequired[int | None]
    # Tokens in both directions.
    tokens: NotRequired[int | None]
    # Of these, tokens that the provider had in its cache.
    tokens_cached: NotRequired[int | None]
    # Tokens that models read.
    tokens_in: NotRequired[int | None]
    # Tokens that models write.
    tokens_out: NotRequired[int | None]
    # Calls of tools.
    tool_calls: NotRequired[int | None]


class LimitsShape(TypedDict):
    """The limits of a run, or of a part of it."""

    # When the run has to be over; null if never, and for a part that does not say it itself.
    deadline: NotRequired[str | None]
    # Those of its own; those of what is around it hold as well.
    limits: list["LimitShape"]
    node_id: str
    # The nodes of a run: how many it may have, and how many are in its plans. Null for a part that does not say it
    # itself.
    nodes: NotRequired["NodesShape | None"]
    path: str
    run_id: str


class ListOfEntryShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["EntryShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfFound(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["Found"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfGoalShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["GoalShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfObservation(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["Observation"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfPageShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["PageShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfPlanVersionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["PlanVersionShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfQuestionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["QuestionShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfReceiptShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["ReceiptShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfReliability(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["Reliability"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfRunShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["RunShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfScratchItem(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["ScratchItem"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfSpaceShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["SpaceShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfTraceLine(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["TraceLine"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfTurnShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["TurnShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


class ListOfVersionShape(TypedDict):
    """The shape of every list (M7.2.15)."""

    # The commit up to which the answer knows.
    as_of: int
    # Whether more than `total` match: so many are counted, and no more.
    at_least: NotRequired[bool]
    # What is asked for, in the order that is asked for.
    items: list["VersionShape"]
    # What to ask with, as `cursor`, to go on; null at the end.
    next: NotRequired[str | None]
    # How many are given.
    returned: int
    # What the items cost a model that reads them as JSON, by an estimate.
    tokens: int
    # How many match altogether; null where that is not counted.
    total: NotRequired[int | None]


# How many of the words must be there.
Match: TypeAlias = Literal['all', 'any']


class Named(TypedDict):
    """An entry without what it says."""

    # When it was added.
    created_at: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What sort of content it holds.
    kind: "EntryKind"
    # For ever.
    observation_id: str
    # The registered type.
    type: NotRequired[str | None]


class NewEntry(TypedDict):
    """A block to be."""

    # The text, in markdown.
    body: NotRequired[str]
    # Words to find it by.
    tags: NotRequired[list[str]]
    # A heading above it.
    title: NotRequired[str]


class NewNode(TypedDict):
    """A node that has just been made: what never changes of it, and its own limits."""

    id: str
    kind: str
    limits: list["LimitShape"]
    optional: bool
    page_id: str
    parent: NotRequired[str | None]
    path: str
    title: str


class NewPage(TypedDict):
    """A page to be."""

    # The page that contains it: `p7` or `page_…`.
    parent: NotRequired[str | None]
    # What it is for: `note` (the default), `workspace`, `scratchpad_root`, `scratchpad_exec`, `plan`,
    # `iteration_summary`.
    role: NotRequired[str | None]
    # Words to find it by.
    tags: NotRequired[list[str]]
    # What it is called.
    title: str


class NewRunBody(TypedDict):
    """What is to be run."""

    # Let the tool `http_get` ask these hosts: `example.org`, `example.org:8080`, `*.example.org`, an address, or a
    # network as `10.0.0.0/8`. Only for people.
    allow_hosts: NotRequired[list[str]]
    # Let the tool `shell` run any command. Only for people.
    allow_shell: NotRequired[bool]
    # Let these tools be called that wait for a person's yes: `NAME`, or `SERVER.*` for all of an MCP server; `shell`
    # allows what `allow_shell` does. Only for people.
    allow_tools: NotRequired[list[str]]
    # What is wanted, in words.
    goal: NotRequired[str | None]
    # Inputs of the plan. A path is one below the folder that the server was started in.
    inputs: NotRequired[dict[str, Any]]
    # Whose criteria a judge looks at.
    judging: NotRequired["Judged"]
    # The plan: the document as JSON, or as a text in YAML or JSON. Without one, a model makes it for the goal.
    plan: NotRequired[Any]
    # Which plans of models wait for a person's yes: `never`, `root`, `depth<=N`, `always`, `if_cost>USD`; `never` if
    # it is not said.
    plan_gate: NotRequired[str | None]
    # Whether models take tasks apart.
    planning: NotRequired["Planning"]
    # The thread that it belongs to; the main one if it is not said.
    thread: NotRequired[str | None]


class NodeInFull(TypedDict):
    """A node of a run with what it came to."""

    attempt: int
    call: str
    # What its result has to meet.
    criteria: list["CriterionShape"]
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    id: str
    kind: str
    # The limits that it has of its own.
    limits: NotRequired[list["LimitShape"]]
    notes: str
    optional: bool
    outcome: NotRequired[str | None]
    # The page that its work is written on, once it is there.
    page: NotRequired[str | None]
    # The id that this page has or will have.
    page_id: str
    # Calls of models for it that were possibly paid for twice: their driver died before it saw their end, so they
    # were made again.
    paid_twice: NotRequired[int]
    parent: NotRequired[str | None]
    # Why it waits before it is tried again, and until when.
    parked: NotRequired["ParkedShape | None"]
    path: str
    # Whether no call at or below it is begun until somebody says so.
    paused: bool
    # The version of its plan; 0 if it has none, or has not begun with it.
    plan_version: int
    result: NotRequired["ResultShape | None"]
    # What it and everything below used up.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    state: str
    stop_reason: NotRequired[str | None]
    # Whether another version of a plan took its place, or that of what it is in: what it came to counts no more.
    superseded: NotRequired[bool]
    title: str


class NodeShape(TypedDict):
    """One node of a tree."""

    attempt: int
    call: str
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    id: str
    kind: str
    # The limits that it has of its own.
    limits: NotRequired[list["LimitShape"]]
    notes: str
    optional: bool
    outcome: NotRequired[str | None]
    # The page that its work is written on, once it is there.
    page: NotRequired[str | None]
    # The id that this page has or will have.
    page_id: str
    # Calls of models for it that were possibly paid for twice: their driver died before it saw their end, so they
    # were made again.
    paid_twice: NotRequired[int]
    parent: NotRequired[str | None]
    # Why it waits before it is tried again, and until when.
    parked: NotRequired["ParkedShape | None"]
    path: str
    # Whether no call at or below it is begun until somebody says so.
    paused: bool
    # The version of its plan; 0 if it has none, or has not begun with it.
    plan_version: int
    # What it and everything below used up.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    state: str
    stop_reason: NotRequired[str | None]
    # Whether another version of a plan took its place, or that of what it is in: what it came to counts no more.
    superseded: NotRequired[bool]
    title: str


class NodesShape(TypedDict):
    """NodesShape"""

    limit: int
    used: int


class Numbered(TypedDict):
    """A message with its number."""

    # As it was given.
    message: Any
    # Its place in the history, counted from 1.
    number: int


class Observation(TypedDict):
    """An observation."""

    # The rule that put it away, if nobody did.
    archived_for: NotRequired[str | None]
    # Where its writer says that it came from.
    claimed_source: NotRequired[Any]
    # How sure its writer was, from 0 to 1.
    confidence: NotRequired[float | None]
    # What was noticed; of a long text the beginning.
    content: str
    # Of a long text, `content` is the beginning, or all of it if that was asked for.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about; null if nothing is said.
    context: NotRequired[Any]
    # When it was added.
    created_at: str
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # When it stops to hold; null never.
    expires_at: NotRequired[str | None]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # Anything else; null if nothing is said.
    metadata: NotRequired[Any]
    # For ever.
    observation_id: str
    # Whether what it says came true.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # What was found in it that concerns persons.
    pii: NotRequired[list[str]]
    # Its place among the pins of its page.
    pinned: NotRequired[int | None]
    # How well it fits the text that was asked for.
    score: NotRequired[float | None]
    # Where it came from: stamped, never taken from what was sent.
    source: "Source"
    # Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    state: str
    # Where it stands, as its writers say.
    status: str
    # What took its place.
    superseded_by: NotRequired[str | None]
    # Words to find it by.
    tags: list[str]
    # One line above it.
    title: NotRequired[str]
    # How far its content may be believed.
    trust: str
    # How long it was to hold, in minutes; null for ever.
    ttl_minutes: NotRequired[float | None]
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int


class ObservationInput(TypedDict):
    """An observation as a tool, a model or a person writes it. Numbers are taken raw, so that they can be put right
    and reported instead of refused."""

    # A number from 0 to 1, or `low`, `medium`, `high`.
    confidence: NotRequired[Any]
    # The text.
    content: str
    # What it is about.
    context: NotRequired[Any]
    # The end, instead of `ttl_minutes`.
    expires_at: NotRequired[str | None]
    # Anything else.
    metadata: NotRequired[Any]
    # The id that its writer has for it: kept with the claimed source, because the space gives ids.
    observation_id: NotRequired[str | None]
    # Who should act; `agent` if left out.
    owner: NotRequired[str | None]
    # Where its writer says that it comes from: kept as a claim, because only the connection tells (M7.3.31).
    source: NotRequired[Any]
    # `active`, `pending_review` or `resolved`; `active` if left out.
    status: NotRequired[str | None]
    # Words to find it by.
    tags: NotRequired[list[str]]
    # One line above it.
    title: NotRequired[str | None]
    # Minutes that it holds; `null` for ever, left out for the type's default.
    ttl_minutes: NotRequired[float | None]
    # The registered type; `observation` if left out.
    type: NotRequired[str | None]


class ObservationPatch(TypedDict):
    """What is to change of an observation; what is left out stays. Its type and its end do not change: an update
    does not make it hold longer (M7.1.6)."""

    # A number from 0 to 1, or `low`, `medium`, `high`.
    confidence: NotRequired[Any]
    # Another text.
    content: NotRequired[str | None]
    # Another context, all of it.
    context: NotRequired[Any]
    # Other metadata, all of it.
    metadata: NotRequired[Any]
    # Another owner.
    owner: NotRequired[str | None]
    # Another status.
    status: NotRequired[str | None]
    # Other tags, all of them.
    tags: NotRequired[list[str] | None]
    # Another title.
    title: NotRequired[str | None]


class OffloadReceipt(TypedDict):
    """What was put away, and where it is."""

    # The numbers in the history of the first and the last message that was put away.
    history: NotRequired[Any]
    # The entry with what is to be done next.
    next_actions: NotRequired[str | None]
    # How many messages were put away.
    offloaded: int
    # Whether an earlier call had put them away.
    replayed: bool
    # The entry with the summary.
    summary: NotRequired[str | None]
    # What those cost that are left.
    tokens_after: int
    # What the messages cost before.
    tokens_before: int


class Omitted(TypedDict):
    """What was left out, and why."""

    # By what it can be asked for: `e42`, `p7`.
    name: str
    # `budget`: there was no room. `limit`: others of its section come first, and a section has so many lines.
    reason: str


class OriginShape(TypedDict):
    """The moment of another run at which a fork began."""

    # The path of the part before which it began.
    node: str
    # The id of that run.
    run: str


class OutputRef(TypedDict):
    """OutputRef"""

    bytes: int
    hash: str


class PageShape(TypedDict):
    """A page, with the properties that seed 000 names."""

    # The path of the task whose branch it is.
    branch_id: NotRequired[str | None]
    # When it was added.
    created_at: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # The run that it belongs to.
    homework_run_id: NotRequired[str | None]
    # The version of the plan in which it was written.
    iteration: NotRequired[int | None]
    # Whose page it is.
    owner: str
    # For ever.
    page_id: str
    # The page that contains it.
    parent: NotRequired[str | None]
    # The properties that seed 000 names.
    props: Any
    # What the page is for.
    role: str
    # Where its work stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # The thread that it belongs to.
    thread: NotRequired[str | None]
    # What it is called.
    title: str
    # As seed 000 names it.
    type_key: str
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int


class ParkedShape(TypedDict):
    """What a node waits for before it is tried again."""

    # What went wrong the last time.
    cause: str
    until: str


class PartInput(TypedDict):
    """What the body may say."""

    # Only this node, by its path or its id, and what is below it; without it, the whole run.
    node: NotRequired[str | None]


# A part of a text.
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


# Where the view stands.
Placement: TypeAlias = Literal['system'] | Literal['tail']


class PlanShape(TypedDict):
    """The plan of a run, or of a part of it."""

    # The same steps as people edit them.
    markdown: str
    node_id: str
    path: str
    plan_version: int
    run_id: str
    states: list["StepState"]
    # In the form in which plans are written.
    steps: Any


class PlanVersionShape(TypedDict):
    """One version of a plan."""

    # The person who changed the one before; empty if it is what the plan file says, or a model.
    by: str
    # How it differs from the one before, if a person made it: steps by name.
    difference: NotRequired[Any]
    # The same steps as people edit them.
    markdown: str
    plan_version: int
    # Why a model took the task apart like this.
    reason: NotRequired[str]
    # In the form in which plans are written.
    steps: Any
    # Since when it is the plan.
    timestamp: str


# Whether models take tasks apart.
Planning: TypeAlias = Literal['always'] | Literal['auto'] | Literal['never']


class Problem(TypedDict):
    """What went wrong: the code is stable, the words are for people."""

    code: str
    # The entry that it is about, as it stands now.
    current: NotRequired["Current | None"]
    detail: str
    # Single mistakes, where there are several.
    errors: NotRequired[list[Any]]
    hints: list[str]
    status: int
    title: str
    type: str


class Proposal(TypedDict):
    """An observation that could be made a goal: offered, never done by itself."""

    # How sure the observation is.
    confidence: float
    # The observation.
    entry: "Used"
    # What the goal would be called.
    title: str


class QuestionShape(TypedDict):
    """What one task of a run asks."""

    # Of a call: the tool, its arguments, and the hash that names both.
    call: NotRequired[Any]
    # What holds if nobody answers.
    default: NotRequired[str | None]
    # Names it: the run, the node, and what it asks. Whoever answers under this name answers this, and nothing that is
    # asked there later.
    id: str
    # `question`, or `call`, `plan` or `check` (the command of a criterion): these wait for a yes at
    # `/approvals/{id}`.
    kind: str
    node_id: str
    # Answers to choose from; anything may be answered if there are none.
    options: list[str]
    path: str
    question: str
    run_id: str
    title: str


class Ready(TypedDict):
    """That it can work."""

    # The last commit of that space.
    head: int
    # The space that is served.
    space: str
    status: str


class Receipt(TypedDict):
    """What was shown, shortened and left out."""

    # The tokens that it could have.
    budget: int
    # How they were counted: `o200k_base`, `estimated`.
    counted: str
    # The SHA-256 of the text.
    hash: str
    # Section by section.
    sections: list["SectionReceipt"]
    # The tokens that it has.
    tokens: int


class ReceiptShape(TypedDict):
    """A receipt with its place in time."""

    # The last commit before it.
    as_of: int
    # Of what: `view` or `context`.
    of: str
    # What was shown, shortened and left out.
    receipt: "Receipt"
    # The thread of a view.
    thread: NotRequired[str | None]
    # When it was made.
    timestamp: str


class Received(TypedDict):
    """What was, or would be, brought in."""

    # What was taken in, not quite as it stood.
    changed: int
    # What is there otherwise, and stays as it is.
    differs: int
    # Whether nothing was written.
    dry_run: bool
    # Entries that were added.
    entries: int
    # Links that were added.
    links: int
    # What was there, and is now as the file says.
    merged: int
    # Pages that were added.
    pages: int
    # Whether the policy of the file was taken over.
    policy: bool
    # What was there already, just so.
    present: int
    # What was not taken in.
    refused: int
    # Which, and why: the first thousand.
    remarks: list["Remark"]
    # Scratchbooks that were read.
    threads: int


class Rejection(TypedDict):
    """An item that was not taken. The others were, and the answer stands (M7.3.25)."""

    # Which array.
    channel: "Channel"
    # A stable name, such as `type_undeclared`.
    code: str
    # Its place in its array, from 0.
    index: int
    # Why, in words.
    message: str


class Reliability(TypedDict):
    """What became of the observations of one type by one tool."""

    # The reliability table: the ranges in which something was marked.
    bins: list["Bin"]
    # The mean square of stated confidence against 1 for confirmed and 0 for refuted: 0 is perfect, 0.25 is what
    # saying 0.5 every time comes to.
    brier: float
    # How many were confirmed.
    confirmed: int
    # The mean of what was stated.
    mean_stated: float
    # How many were refuted.
    refuted: int
    # The tool; none for those of people and roles.
    tool: NotRequired[str | None]
    # The type.
    type: str


class Remark(TypedDict):
    """Something about one item of a file."""

    # A stable name of the reason.
    code: str
    # What became of it.
    fate: "Fate"
    # Which: its id in the file, with its thread before it if there is one, or the number of its line.
    item: str
    # The reason, in words.
    message: str


class Residue(TypedDict):
    """What is left, in everything that belongs to a store, of texts that should be gone."""

    # Copies that were made before a migration. They hold what the store held then; nobody but people should remove
    # them.
    backups: list[str]
    # Where a text still is, in words: another entry, a run, free space of a file.
    found: list[str]
    # Of how many entries nobody knows any more what they said, so that nothing of it was looked for: they were
    # forgotten before, and what is left of that was written anew.
    no_longer_known: int
    # How many texts were not looked for: they are so short that they stand anywhere by chance.
    not_looked_for: int
    # What was searched: files with their bytes, and rows that are compressed.
    searched: list[str]


# What a result is of. Only those of tools are put away: the others can be read again where they came from.
ResultOf: TypeAlias = Literal['tool'] | Literal['file'] | Literal['memory']


class ResultShape(TypedDict):
    """What a node came to."""

    criteria: list["VerdictShape"]
    evidence: list["EvidenceShape"]
    notes: str
    # The value itself, unless it is kept beside the journal.
    output: NotRequired[Any]
    # Whether there is an output that is too large to be given here: what the members of a group came to, which say it
    # themselves.
    output_omitted: NotRequired[bool]
    # Where a large value is kept.
    output_ref: NotRequired["OutputRef | None"]
    severity: NotRequired[str | None]
    status: str
    stop_reason: NotRequired[str | None]


class RollupShape(TypedDict):
    """What pages have come to."""

    # What it holds, shortens and leaves out.
    receipt: "Receipt"
    # What a model reads.
    rollup: str
    # What that costs.
    tokens: int


# One thing that happened. Says what is new and nothing else: who applies each to the tree has the tree.
RunEvent: TypeAlias = dict[str, Any]


class RunInFull(TypedDict):
    """Everything about a run but its tree."""

    # How much it asks people now: questions, and what waits for a yes.
    asks: int
    # Nodes that have ended, by how.
    counts: dict[str, int]
    created_at: str
    # Whether a living process drives it. One that is `running` and is not driven waits to be resumed.
    driven: bool
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    # Where it was forked from another one, if it was.
    forked_from: NotRequired["OriginShape | None"]
    goal: str
    handle: str
    # The commit at which its journal ends.
    head: int
    # What keeps a call of it waiting, if something does.
    held_up: NotRequired["HeldUpShape | None"]
    # Nodes whose call is under way.
    in_flight: int
    inputs: Any
    # Nodes made so far.
    nodes: int
    # Handles of the pages that it has, by what they are for.
    pages: dict[str, str]
    # Whether no call of it is begun until somebody says so.
    paused: bool
    result: NotRequired["ResultShape | None"]
    run_id: str
    # What it used up.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    # `running`, or how it ended.
    status: str
    title: str
    # The turn that it is in: its own, or the one that it was started in.
    turn_id: NotRequired[str | None]
    updated_at: str


# What the messages of a stream say.
RunMessage: TypeAlias = "RunEvent | StreamEnd | StreamGap | Problem"


class RunShape(TypedDict):
    """A run, as a list shows it."""

    # How much it asks people now: questions, and what waits for a yes.
    asks: NotRequired[int | None]
    created_at: str
    # Whether a living process drives it. One that is `running` and is not driven waits to be resumed.
    driven: bool
    handle: str
    # The commit at which its journal ends.
    head: int
    # Whether no call of it is begun until somebody says so.
    paused: NotRequired[bool | None]
    run_id: str
    # What it used up. Null, as `paused` and `asks` are, for a run whose last event an older version wrote: the run
    # itself says it.
    spent: NotRequired["SpendShape | None"]
    # `running`, or how it ended.
    status: str
    title: str
    updated_at: str


class SaidShape(TypedDict):
    """What was said."""

    # The messages.
    messages: list["Numbered"]
    # The first that is not given here.
    next: NotRequired[int | None]
    # How many there are.
    total: int


class ScratchItem(TypedDict):
    """A note, a todo or a task, as programs get it."""

    # The text; of a long one the beginning.
    body: str
    # Where the whole text is, if `body` is its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # Since 1970. No two items of a space have the same.
    created_at_nanoseconds: int
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # `e42`.
    handle: str
    # For ever.
    item_id: str
    # `note`, `todo`, `task`.
    kind: str
    # The stage of a task.
    phase: NotRequired[str | None]
    # Whether it is kept at the top.
    pinned: bool
    # How far it is, from 0 to 1.
    progress: NotRequired[float | None]
    # Where it stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # One line.
    title: str
    # Since 1970.
    updated_at_nanoseconds: int
    # Counts its revisions, from 1.
    version: int


class SectionReceipt(TypedDict):
    """What became of a section."""

    # How many more there are that nobody looked at, because a section has so many lines.
    beyond: NotRequired[int]
    # What is shown by the line of something equal (M7.3.27).
    folded: NotRequired[list["Folded"]]
    # What is not shown.
    omitted: list["Omitted"]
    # What that is in tokens.
    reserved: int
    # Which: `tasks`, `scratch_page`.
    section: str
    # Its share of the budget in per cent.
    share: int
    # What is shown shortened.
    shortened: list[str]
    # What is shown whole.
    shown: list[str]
    # What it took.
    tokens: int


class SectionShape(TypedDict):
    """A section of what goes into a prompt."""

    # Which: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
    section: str
    # What a model reads of it; empty if it has nothing to show, or no room.
    text: str
    # What it costs.
    tokens: int


# Sections of a context: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
Sections: TypeAlias = list[str] | dict[str, int]


class Seen(TypedDict):
    """What a tool may see of what it asked for."""

    # What the tool may see, best first.
    scratch_page_context: list["ContextItem"]


class Settled(TypedDict):
    """How an observation ended."""

    # Whether what it says came true, if that is known: what calibration counts.
    outcome: NotRequired["CameTrue | None"]
    # Why, in words.
    reason: NotRequired[str | None]


# A part of a text on one line, in pieces that follow one another.
Snippet: TypeAlias = list["SnippetPart"]


class SnippetPart(TypedDict):
    """A piece of a [`Snippet`]."""

    # Whether it was searched for.
    hit: bool
    # As it stands in the text; ends of lines are spaces.
    text: str


class Source(TypedDict):
    """Where it came from."""

    # The part of an answer that it stood in.
    channel: NotRequired[str | None]
    # The node of that run.
    node_id: NotRequired[str | None]
    # In which run.
    run_id: NotRequired[str | None]
    # When.
    timestamp: str
    # The tool; null for people and roles.
    tool: NotRequired[str | None]
    # In which turn.
    turn_id: NotRequired[str | None]


# What the messages of a stream say.
SpaceMessage: TypeAlias = "CommitShape | StreamGap | Problem"


class SpaceShape(TypedDict):
    """A space, and who asks."""

    # By which name; empty if there is none.
    name: str
    # What whoever asks may do there: `human`, `client`, `tool`, ….
    role: str
    space: str


class SpendShape(TypedDict):
    """What was used up; what is nothing is left out."""

    # Millionths of a US dollar, as far as prices are known.
    micro_usd: NotRequired[int]
    # Calls of models.
    model_calls: NotRequired[int]
    # Of these, tokens that the provider had in its cache.
    tokens_cached: NotRequired[int]
    # Tokens that models read.
    tokens_in: NotRequired[int]
    # Tokens that models wrote.
    tokens_out: NotRequired[int]
    # Calls of tools.
    tool_calls: NotRequired[int]
    # Of these, calls of which nobody knows what they cost: `micro_usd` has nothing of them.
    unpriced_calls: NotRequired[int]


# A stage of a turn (M7.11.1).
Stage: TypeAlias = Literal['router'] | Literal['clarifier'] | Literal['executor'] | Literal['evaluator'] | Literal['reflector']


# A status that a run can have.
Status: TypeAlias = Literal['running', 'ok', 'partial', 'failed', 'cancelled']


class StepState(TypedDict):
    """Where a step of a plan stands."""

    # Whether an edit may change it.
    editable: bool
    # What the plan calls it.
    id: str
    # `waiting`, `running`, or how it ended.
    status: str
    # One line for people.
    title: str


class Stored(TypedDict):
    """An item as it is kept now."""

    # The rule that put it away, if nobody did.
    archived_for: NotRequired[str | None]
    # Where its writer says that it came from.
    claimed_source: NotRequired[Any]
    # How sure its writer was, from 0 to 1.
    confidence: NotRequired[float | None]
    # What was noticed; of a long text the beginning.
    content: str
    # Of a long text, `content` is the beginning, or all of it if that was asked for.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about; null if nothing is said.
    context: NotRequired[Any]
    # When it was added.
    created_at: str
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # When it stops to hold; null never.
    expires_at: NotRequired[str | None]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What it became: an `observation`, or of `memory_writes` a `note`.
    kind: str
    # Anything else; null if nothing is said.
    metadata: NotRequired[Any]
    # For ever.
    observation_id: str
    # Whether what it says came true.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # What was found in it that concerns persons.
    pii: NotRequired[list[str]]
    # Its place among the pins of its page.
    pinned: NotRequired[int | None]
    # How well it fits the text that was asked for.
    score: NotRequired[float | None]
    # Where it came from: stamped, never taken from what was sent.
    source: "Source"
    # Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    state: str
    # Where it stands, as its writers say.
    status: str
    # What took its place.
    superseded_by: NotRequired[str | None]
    # Words to find it by.
    tags: list[str]
    # One line above it.
    title: NotRequired[str]
    # How far its content may be believed.
    trust: str
    # How long it was to hold, in minutes; null for ever.
    ttl_minutes: NotRequired[float | None]
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int


class StreamEnd(TypedDict):
    """Of the message `end`: nothing follows."""

    # How the run has ended.
    status: NotRequired[str | None]


class StreamGap(TypedDict):
    """Of the message `gap`: the last id is not known here."""

    # Of a space, the commit after which it goes on.
    head: NotRequired[int | None]
    # What follows, in words.
    reason: str


class Successor(TypedDict):
    """What takes the place of an observation."""

    # The observation that does: `e42` or `obs_…`.
    by: str
    # Whether what it said came true, if that is known: what calibration counts.
    outcome: NotRequired["CameTrue | None"]
    # Why, in words.
    reason: NotRequired[str | None]


class TakenIn(TypedDict):
    """What became of the items of an answer."""

    # What was not taken, and why.
    rejected: list["Rejection"]
    # How many of the stored ones were there before.
    replayed: NotRequired[int]
    # How many wait until the store can be written.
    spooled: NotRequired[int]
    # What is an entry now.
    stored: list["Stored"]
    # What was put right.
    warnings: list["Correction"]


class Talk(TypedDict):
    """A conversation, and when its older messages are put away."""

    # Whether to put away whatever need not stay, however little there is.
    force: NotRequired[bool]
    # Messages at the end that always stay.
    keep: NotRequired[int]
    # The messages, in the form of OpenAI, of Anthropic, or of both.
    messages: Any
    # Whose tokens are counted.
    model: NotRequired[str | None]
    # From which share of the window on something is put away.
    share: NotRequired[float]
    # Tokens of the message that stands for what was put away.
    summary: NotRequired[int]
    # Tokens of the window.
    window: NotRequired[int]


class ToolRequest(TypedDict):
    """What a tool is asked."""

    # What it works on.
    inputs: NotRequired[Any]
    # Names the call.
    request_id: NotRequired[str]
    # What it wants to know of the scratch page: filters and a limit.
    scratch_page_query: NotRequired[Any]
    # The tool.
    tool_id: NotRequired[str]


class ToolResponse(TypedDict):
    """What a tool answers."""

    # What is worth knowing for longer.
    memory_writes: NotRequired[Any]
    # What it noticed.
    observations: NotRequired[Any]
    # The result.
    outputs: NotRequired[Any]
    # The request that it answers.
    request_id: NotRequired[str]
    # What it was told to put on the scratch page.
    scratch_page_writes: NotRequired[Any]
    # How it went; everything but a word for failure counts as success.
    status: NotRequired[Any]


class TraceLine(TypedDict):
    """One thing that happened."""

    # Which part of the program.
    component: str
    # More, by name: `text` for a few words, `fields` that changed, `verdict` of a decision, `outcome` of what
    # finished, `code` and `error` of what was not done, `filters` of a question, the `reason` that was given.
    detail: NotRequired[dict[str, Any] | None]
    # How long it took, in microseconds, if that was measured.
    duration_us: NotRequired[int | None]
    # At which node of the run.
    node_id: NotRequired[str | None]
    # The entry that it was done to.
    observation_id: NotRequired[str | None]
    # The type of the observation, or the kind of another entry.
    observation_type: NotRequired[str | None]
    # What was done.
    operation: str
    # The page that it was done to, if it was no entry.
    page_id: NotRequired[str | None]
    # In which run.
    run_id: NotRequired[str | None]
    # The commit.
    seq: int
    # Who: the name, or the role if there is none.
    source: str
    # How it went: `success`, `warning`, `denied`, `rejected` or `failed`.
    status: str
    # When.
    timestamp: str
    # In which turn.
    turn_id: NotRequired[str | None]
    # The entries that a decision used.
    used: NotRequired[list[str]]


class TreeShape(TypedDict):
    """A run's tree, and the event after which its live stream goes on."""

    driven: bool
    handle: str
    # The last event that the tree knows: ask for events after it.
    last_event_id: int
    # Parents before children, children in plan order.
    nodes: list["NodeShape"]
    run_id: str
    status: str
    title: str


# How far content may be believed. Ordered: what is derived is as trustworthy as its weakest source.
Trust: TypeAlias = Literal['imported'] | Literal['tool_external'] | Literal['tool_internal'] | Literal['model'] | Literal['user']


class TurnShape(TypedDict):
    """A turn."""

    # The commit up to which it knows.
    as_of: int
    # Whether nobody waits for it.
    background: bool
    # Whether nothing was left to do; none as long as it goes on.
    complete: NotRequired[bool | None]
    # What the stages decided, and which entries they used.
    decisions: list["Decision2"]
    # When it ended; null as long as it goes on.
    ended_at: NotRequired[str | None]
    # The hash of its export, once it has ended.
    export: NotRequired[str | None]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # What came in.
    input: str
    # The run that it is the turn of.
    run_id: NotRequired[str | None]
    # When it began.
    started_at: str
    # The commit that began it.
    started_seq: int
    # In which thread.
    thread: str
    # How many entries it touched, once it has ended.
    touched: NotRequired[int | None]
    # For ever.
    turn_id: str
    # How soon it is to be handled.
    urgency: NotRequired[str | None]


class Used(TypedDict):
    """An entry that a decision rests on, in the version that was read."""

    # Its handle.
    handle: str
    # Its id.
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

    # Who.
    by: str
    # What is different from the version before; of the first, everything.
    changes: list["FieldDiff"]
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # What was done.
    operation: str
    # Why, in the writer's words.
    reason: NotRequired[str | None]
    # The commit.
    seq: int
    # When.
    timestamp: str
    # Its number.
    version: int


class ViewShape(TypedDict):
    """The view of a scratchbook."""

    # The commit up to which it knows.
    as_of: int
    # The items of the scratchbook that it was made of, as long as they are few.
    items: list["ScratchItem"]
    # Where it stands in what a model is sent.
    placement: "Placement"
    # What it holds, shortens and leaves out.
    receipt: "Receipt"
    # What that costs.
    tokens: int
    # What a model reads.
    view: str


class Warning(TypedDict):
    """A value that was put right. The answer carries it, and so does the trace (M7.1.4, M7.3.21)."""

    # A stable name, such as `confidence_clamped`.
    code: str
    # The value as it came, a number as a number; words where it is none that JSON has.
    given: Any
    # What happened, in words.
    message: str
    # The value that is used instead.
    used: Any


Way: TypeAlias = Literal['newest', 'oldest', 'priority', 'relevance']


class Why(TypedDict):
    """Why something is done."""

    # In words.
    reason: NotRequired[str | None]


class WrittenEntryShape(TypedDict):
    """Something that was written."""

    # The text; of a long one the beginning.
    body: str
    # Where the whole is of a long text, of which `body` is the beginning.
    body_ref: NotRequired["BodyRef | None"]
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # When it was added.
    created_at: str
    # For ever.
    entry_id: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # The version of the plan in which it was written.
    iteration: NotRequired[int | None]
    # What sort of content it holds.
    kind: str
    # The parts of a structured block.
    parts: NotRequired[Any]
    # Whether an earlier call with the same key wrote it.
    replayed: NotRequired[bool]
    # Where its work stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # What it is called.
    title: str
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int
    # What was put right.
    warnings: NotRequired[list["Warning"]]


class WrittenObservation(TypedDict):
    """Something that was written."""

    # The rule that put it away, if nobody did.
    archived_for: NotRequired[str | None]
    # Where its writer says that it came from.
    claimed_source: NotRequired[Any]
    # How sure its writer was, from 0 to 1.
    confidence: NotRequired[float | None]
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # What was noticed; of a long text the beginning.
    content: str
    # Of a long text, `content` is the beginning, or all of it if that was asked for.
    content_ref: NotRequired["BodyRef | None"]
    # What it is about; null if nothing is said.
    context: NotRequired[Any]
    # When it was added.
    created_at: str
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # When it stops to hold; null never.
    expires_at: NotRequired[str | None]
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # Anything else; null if nothing is said.
    metadata: NotRequired[Any]
    # For ever.
    observation_id: str
    # Whether what it says came true.
    outcome: NotRequired[str | None]
    # Who should act.
    owner: str
    # What was found in it that concerns persons.
    pii: NotRequired[list[str]]
    # Its place among the pins of its page.
    pinned: NotRequired[int | None]
    # Whether an earlier call with the same key wrote it.
    replayed: NotRequired[bool]
    # How well it fits the text that was asked for.
    score: NotRequired[float | None]
    # Where it came from: stamped, never taken from what was sent.
    source: "Source"
    # Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    state: str
    # Where it stands, as its writers say.
    status: str
    # What took its place.
    superseded_by: NotRequired[str | None]
    # Words to find it by.
    tags: list[str]
    # One line above it.
    title: NotRequired[str]
    # How far its content may be believed.
    trust: str
    # How long it was to hold, in minutes; null for ever.
    ttl_minutes: NotRequired[float | None]
    # The registered type.
    type: NotRequired[str | None]
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int
    # What was put right.
    warnings: NotRequired[list["Warning"]]


class WrittenPageShape(TypedDict):
    """Something that was written."""

    # The path of the task whose branch it is.
    branch_id: NotRequired[str | None]
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # When it was added.
    created_at: str
    # For people and models: `e42`, `p7`, `r3`, `t5`.
    handle: str
    # The run that it belongs to.
    homework_run_id: NotRequired[str | None]
    # The version of the plan in which it was written.
    iteration: NotRequired[int | None]
    # Whose page it is.
    owner: str
    # For ever.
    page_id: str
    # The page that contains it.
    parent: NotRequired[str | None]
    # The properties that seed 000 names.
    props: Any
    # Whether an earlier call with the same key wrote it.
    replayed: NotRequired[bool]
    # What the page is for.
    role: str
    # Where its work stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # The thread that it belongs to.
    thread: NotRequired[str | None]
    # What it is called.
    title: str
    # As seed 000 names it.
    type_key: str
    # When it last changed.
    updated_at: str
    # Counts its revisions, from 1; what `If-Match` takes.
    version: int
    # What was put right.
    warnings: NotRequired[list["Warning"]]


class WrittenRunInFull(TypedDict):
    """Something that was written."""

    # How much it asks people now: questions, and what waits for a yes.
    asks: int
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # Nodes that have ended, by how.
    counts: dict[str, int]
    created_at: str
    # Whether a living process drives it. One that is `running` and is not driven waits to be resumed.
    driven: bool
    duration_us: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    # Where it was forked from another one, if it was.
    forked_from: NotRequired["OriginShape | None"]
    goal: str
    handle: str
    # The commit at which its journal ends.
    head: int
    # What keeps a call of it waiting, if something does.
    held_up: NotRequired["HeldUpShape | None"]
    # Nodes whose call is under way.
    in_flight: int
    inputs: Any
    # Nodes made so far.
    nodes: int
    # Handles of the pages that it has, by what they are for.
    pages: dict[str, str]
    # Whether no call of it is begun until somebody says so.
    paused: bool
    # Whether an earlier call with the same key wrote it.
    replayed: NotRequired[bool]
    result: NotRequired["ResultShape | None"]
    run_id: str
    # What it used up.
    spent: "SpendShape"
    started_at: NotRequired[str | None]
    # `running`, or how it ended.
    status: str
    title: str
    # The turn that it is in: its own, or the one that it was started in.
    turn_id: NotRequired[str | None]
    updated_at: str
    # What was put right.
    warnings: NotRequired[list["Warning"]]


class WrittenScratchItem(TypedDict):
    """Something that was written."""

    # The text; of a long one the beginning.
    body: str
    # Where the whole text is, if `body` is its beginning.
    body_ref: NotRequired["BodyRef | None"]
    # What it wrote over that somebody else had changed meanwhile.
    conflicts: NotRequired[list["FieldConflict"]]
    # Since 1970. No two items of a space have the same.
    created_at_nanoseconds: int
    # Why its content is gone, if it is.
    erased: NotRequired[str | None]
    # `e42`.
    handle: str
    # For ever.
    item_id: str
    # `note`, `todo`, `task`.
    kind: str
    # The stage of a task.
    phase: NotRequired[str | None]
    # Whether it is kept at the top.
    pinned: bool
    # How far it is, from 0 to 1.
    progress: NotRequired[float | None]
    # Whether an earlier call with the same key wrote it.
    replayed: NotRequired[bool]
    # Where it stands.
    status: str
    # Words to find it by.
    tags: list[str]
    # One line.
    title: str
    # Since 1970.
    updated_at_nanoseconds: int
    # Counts its revisions, from 1.
    version: int
    # What was put right.
    warnings: NotRequired[list["Warning"]]
