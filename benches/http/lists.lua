-- Lists: the newest ten of what has a tag, another tag with each request.
local asked = 0
request = function()
    asked = asked + 1
    return wrk.format("GET", "/v1/spaces/main/observations?tags=hot-file&tags=file-" .. asked % 50 .. "&limit=10")
end
dofile(os.getenv("FOLIO_LOAD") .. "/report.lua")
