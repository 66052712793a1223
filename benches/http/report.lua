-- What came of it, as one line of JSON.
done = function(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        '{"requests":%d,"per_second":%.0f,"p50_ms":%.2f,"p99_ms":%.2f,"max_ms":%.2f,"errors":%d}\n',
        summary.requests,
        summary.requests / (summary.duration / 1e6),
        latency:percentile(50) / 1e3,
        latency:percentile(99) / 1e3,
        latency.max / 1e3,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout
    ))
end
