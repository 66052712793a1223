# A small MCP server over standard input and output, with tools that fail in every way that a server can. It keeps the
# requests in the file `asked`, and its process id in the file `pid`, in the folder that it starts in.

echo $$ >pid
echo "ready" >&2

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
says() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]$2}"; }
listed() { printf '{"name":"%s","description":"%s","inputSchema":%s,"annotations":%s}' "$1" "$2" "$3" "$4"; }

text='{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}'
none='{"type":"object"}'
reads='{"readOnlyHint":true}'
acts='{}'

while IFS= read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
        *'"server/discover"'*)
            printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"
            ;;
        *'"initialize"'*)
            answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"sh","version":"1"}}'
            ;;
        *'"tools/list"'*)
            # Does not answer, once.
            if [ -e mute ]; then
                mv mute muted
                continue
            fi
            tools=$(listed echo 'Says what it is told.' "$text" "$reads")
            if [ ! -e changed ]; then
                tools=$tools,$(listed leaves 'Is there until the tools change.' "$none" "$reads")
            fi
            if [ -e changed ]; then other=$text; else other=$none; fi
            tools=$tools,$(listed turns 'Wants something else once the tools change.' "$other" "$reads")
            for name in send die hang mumble mend deaf abandon desert film; do
                tools=$tools,$(listed "$name" "Changes something: $name." "$none" "$acts")
            done
            for name in die_once always_dies fail refuse large change wait deep babble garble half pester explore; do
                tools=$tools,$(listed "$name" "Looks at something: $name." "$none" "$reads")
            done
            # An invalid tool, and a second one with the same name.
            if [ -e strange ]; then
                tools="{\"name\":\"bare\"},$tools,$(listed echo 'Sends it to everybody.' "$none" "$acts")"
            fi
            answer "{\"tools\":[$tools]}"
            ;;
        *'"tools/call"'*)
            echo "$line" >>asked
            case $line in
                *'"name":"echo"'*)
                    said=${line#*\"text\":\"}
                    said=${said%%\"*}
                    says "$said" ',"structuredContent":{"length":'"${#said}}"
                    ;;
                *'"name":"send"'*) says sent ;;
                *'"name":"mend"'*) says 'Done. {\"status\":\"ok\",\"notes\":\"It ticks again.\"}' ;;
                *'"name":"die"'* | *'"name":"always_dies"'*)
                    echo "it broke" >&2
                    exit 3
                    ;;
                *'"name":"die_once"'*)
                    [ -e died ] || { touch died; exit 3; }
                    says "alive again"
                    ;;
                *'"name":"deaf"'*)
                    exec </dev/null
                    says "I hear nothing any more"
                    exec sleep 1000
                    ;;
                *'"name":"abandon"'*)
                    sleep 1000 <&0 &
                    says "somebody else holds the pipes"
                    exit 0
                    ;;
                *'"name":"desert"'*)
                    sleep 1000 <&0 2>/dev/null &
                    exit 4
                    ;;
                *'"name":"pester"'*)
                    says "and now some questions"
                    seq -f '{"jsonrpc":"2.0","id":"%.0f","method":"ping"}' 1 1000000000
                    ;;
                *'"name":"explore"'*)
                    echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
                    IFS= read -r line
                    case $line in
                        *-32601*) says "no such method" ;;
                        *) says "there are some" ;;
                    esac
                    ;;
                *'"name":"hang"'* | *'"name":"wait"'*) ;;
                *'"name":"deep"'*)
                    nested=$(head -c 300 /dev/zero | tr '\0' '[')$(head -c 300 /dev/zero | tr '\0' ']')
                    answer "{\"content\":[],\"structuredContent\":{\"a\":$nested}}"
                    ;;
                *'"name":"babble"'*) answer '{"content":"of no form"}' ;;
                *'"name":"film"'*) answer '{"content":[{"type":"text","text":"it is 42"},{"type":"film","data":"AAAA"}]}' ;;
                *'"name":"garble"'*) answer '{"content":[],"structuredContent":{a:1}}' ;;
                *'"name":"half"'*) answer '{"content":[{"type":"text","text":"a \ud83c"}]}' ;;
                *'"name":"mumble"'*) answer '{"nothing":"of the protocol"}' ;;
                *'"name":"fail"'*) says "no such city" ',"isError":true' ;;
                *'"name":"refuse"'*)
                    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"not like this"}}\n' "$id"
                    ;;
                *'"name":"large"'*) says "$(head -c 300000 /dev/zero | tr '\0' x)" ;;
                *'"name":"change"'*)
                    touch changed
                    echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
                    says "changed"
                    ;;
                *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such tool"}}\n' "$id" ;;
            esac
            ;;
    esac
done
