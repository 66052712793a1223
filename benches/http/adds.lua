-- Durable adds: an observation with each request, answered when the disk has it.
local asked = 0
request = function()
    asked = asked + 1
    local body = string.format(
        '{"type":"contextual_insight","content":"src/lib.rs was touched by %d of the last commits, more often than any '
            .. 'other file of this crate.","confidence":0.8,"tags":["hot-file","file-%d"],"context":{"file":"src/lib.rs"}}',
        asked,
        asked % 50
    )
    return wrk.format("POST", "/v1/spaces/main/observations", { ["Content-Type"] = "application/json" }, body)
end
dofile(os.getenv("FOLIO_LOAD") .. "/report.lua")
