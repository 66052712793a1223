# A small agent that speaks the Agent Client Protocol, and misbehaves as its first argument says. Its second is its
# answer. What it is told is kept in the file `told`, in the folder that it starts in.

mode=$1
answer=$2
echo begun >>begun
echo $$ >pid

says() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}\n' "$1"; }
# Quotes text as JSON: the answer may contain quotes.
quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
ends() { printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"%s"%s}}\n' "$prompt" "$1" "$2"; }
finish() {
    update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":$(quoted "$answer")}}"
    update '{"sessionUpdate":"usage_update","used":1234,"size":200000,"cost":{"amount":0.05,"currency":"USD"}}'
    [ "$mode" = costs ] && { ends end_turn; return; }
    [ "$mode" = writes ] && { ends end_turn ',"usage":{"totalTokens":34,"inputTokens":0,"outputTokens":34}'; return; }
    ends end_turn ',"usage":{"totalTokens":1234,"inputTokens":1100,"outputTokens":34,"cachedReadTokens":100}'
}
# Asks for permission: the id of the request, that of the tool call, and its kind, if it states one.
may() {
    printf '{"jsonrpc":"2.0","id":"%s","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"%s",%s"title":"wants to %s"},"options":[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"once","name":"Once","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}\n' "$1" "$2" "${3:+\"kind\":\"$3\",}" "$1"
}

# The contents of a session are kept in the file `history`, one update per line. In the modes that say so, they outlive
# the program.
can() {
    case $mode in
        loads | answers | untold | forgets) echo '{"loadSession":true}' ;;
        resumes) echo '{"sessionCapabilities":{"resume":{}}}' ;;
        once) [ "$(wc -l <begun)" -eq 1 ] && echo '{"loadSession":true}' || echo '{}' ;;
        *) echo '{}' ;;
    esac
}
replay() { while IFS= read -r past; do update "$past"; done <history; }
remembers() { printf '%s\n' "$1" >>history; }
hang() { sleep 1000 & echo $! >child; }
# The first time it begins but does not end; the second time it continues.
keeps() {
    if [ -f waits ]; then
        hang
        return
    fi
    if [ -f history ]; then
        echo 'went on' >>worked
        finish
        return
    fi
    if [ "$mode" = untold ]; then
        : >history
    else
        remembers '{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"A task."}}'
        remembers '{"sessionUpdate":"tool_call","toolCallId":"t1","title":"mend","kind":"edit","status":"completed"}'
        echo 'worked' >>worked
    fi
    [ "$mode" = answers ] &&
        remembers "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":$(quoted "$answer")}}"
    hang
}

while IFS= read -r line; do
    printf '%s\n' "$line" >>told
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
    case $line in
        *'"method":"initialize"'*)
            [ "$mode" = babbles ] && { echo 'Welcome!'; echo "no protocol here" >&2; exit 0; }
            says "{\"protocolVersion\":1,\"agentCapabilities\":$(can),\"agentInfo\":{\"name\":\"sh\",\"version\":\"1\"}}"
            ;;
        *'"method":"session/new"'*)
            if [ "$mode" = login ]; then
                printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Authentication required"}}\n' "$id"
            else
                says '{"sessionId":"s1"}'
            fi
            ;;
        *'"method":"session/load"'*)
            if [ "$mode" = forgets ]; then
                printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such session"}}\n' "$id"
            else
                replay
                says '{}'
            fi
            ;;
        *'"method":"session/resume"'*) says '{}' ;;
        *'"method":"session/prompt"'*)
            prompt=$id
            update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I will look first."}}'
            update '{"sessionUpdate":"tool_call","toolCallId":"t1","title":"look","kind":"read","status":"pending"}'
            case $mode in
                works | costs | writes) finish ;;
                halves)
                    update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Half: \ud83c"}}'
                    ends end_turn
                    ;;
                # A log line in Latin-1, and a text that was cut inside a character.
                garbles)
                    printf 'caf\351 \374ber\n'
                    text="Cut: caf$(printf '\303')"
                    update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$text\"}}"
                    ends end_turn
                    ;;
                asks) may read a1 read ;;
                offers) may execute a3 read | sed 's/"allow_always"/"allow_on_sundays"/' ;;
                # It reports the call before it asks for permission.
                tells)
                    update '{"sessionUpdate":"tool_call","toolCallId":"a2","title":"mend","status":"pending"}'
                    update '{"sessionUpdate":"tool_call_update","toolCallId":"a2","kind":"edit"}'
                    may mend a2
                    ;;
                thinks)
                    thought=$(head -c 1000 /dev/zero | tr '\0' x)
                    while :; do
                        update "{\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$thought\"}}"
                    done
                    ;;
                deserts) sleep 1000 <&0 2>/dev/null & exit 4 ;;
                dies) echo "it broke" >&2; exit 3 ;;
                turns) ends max_turn_requests ',"usage":{"totalTokens":60,"inputTokens":50,"outputTokens":10}' ;;
                tires)
                    update '{"sessionUpdate":"usage_update","used":60,"size":200000,"cost":{"amount":0.05,"currency":"USD"}}'
                    ends too_tired
                    ;;
                drops)
                    update '{"sessionUpdate":"usage_update","used":60,"size":200000,"cost":{"amount":0.05,"currency":"USD"}}'
                    exit 3
                    ;;
                # An update of a session that was never begun.
                strays)
                    own=$(quoted "$answer")
                    update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":$own}}"
                    other='{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" of another"}}'
                    printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":%s}}\n' "$other"
                    may stray a9 read | sed 's/"sessionId":"s1"/"sessionId":"s2"/'
                    ;;
                fails) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no model today"}}\n' "$prompt" ;;
                loud) answer=$(head -c 200000 /dev/zero | tr '\0' x); finish ;;
                hangs) hang ;;
                loads | answers | untold | forgets | resumes | once) keeps ;;
            esac
            ;;
        *'"method":"session/cancel"'*) ends cancelled ;;
        *'"result"'*'"outcome"'*)
            case $line in
                *'"read"'*) may execute a3 execute ;;
                *'"mend"'*) may other t1 execute ;;
                *'"stray"'*) ends end_turn ;;
                *) finish ;;
            esac
            ;;
    esac
done
