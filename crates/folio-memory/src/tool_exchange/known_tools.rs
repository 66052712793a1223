//! Tools known by name: those of Folio, and those that agent programs have. Whoever stores a conversation of such a
//! program has no manifests for its tools.

/// Tools that read the web, whose names have neither a dot nor two underscores.
const OF_THE_WEB: [&str; 15] = [
    "browseraction",
    "fetch",
    "fetchurl",
    "fetchwebpage",
    "googlewebsearch",
    "httpget",
    "httprequest",
    "openurl",
    "readurl",
    "readurlcontent",
    "searchweb",
    "webfetch",
    "webread",
    "websearch",
    "websearchpreview",
];

/// Tools that answer from this machine: commands, files and lists of tasks. Tools that hand on what others read, such
/// as agents and `result_read`, are not among them.
const LOCAL: [&str; 53] = [
    "applypatch",
    "bash",
    "bashoutput",
    "createfile",
    "delete",
    "deletefile",
    "edit",
    "editfile",
    "execcommand",
    "filesearch",
    "git",
    "glob",
    "globfilesearch",
    "grep",
    "grepsearch",
    "inserteditintofile",
    "killbash",
    "killshell",
    "list",
    "listdir",
    "listdirectory",
    "listfiles",
    "localshell",
    "ls",
    "multiedit",
    "notebookedit",
    "notebookread",
    "pageappend",
    "read",
    "readfile",
    "readlints",
    "readmanyfiles",
    "replace",
    "replaceinfile",
    "runcommand",
    "runinterminal",
    "runshellcommand",
    "runterminalcmd",
    "searchfilecontent",
    "searchfiles",
    "searchreplace",
    "shell",
    "shellcommand",
    "strreplace",
    "strreplacebasededittool",
    "text",
    "todowrite",
    "updateplan",
    "write",
    "writefile",
    "writestdin",
    "writetodos",
    "writetofile",
];

/// Whether `tool` reads what strangers wrote, as far as its name tells: tools of servers, which are called
/// `SERVER.TOOL` here and `mcp__SERVER__TOOL` or `SERVER__TOOL` in agent programs, and tools that read the web.
pub(super) fn reads_strangers(tool: &str) -> bool {
    let is_of_a_server = tool.contains('.') || tool.split("__").filter(|part| !part.is_empty()).count() > 1;
    is_of_a_server || OF_THE_WEB.contains(&plain(tool).as_str())
}

/// Whether `tool` is known to answer from this machine only.
pub(super) fn is_local(tool: &str) -> bool {
    !reads_strangers(tool) && LOCAL.contains(&plain(tool).as_str())
}

/// The name as the lists above have it: programs spell the same tool `web_search` and `WebSearch`.
fn plain(tool: &str) -> String {
    let letters = tool.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_known_tools_are_sorted_plain_names_and_have_none_in_common() {
        for list in [&OF_THE_WEB[..], &LOCAL[..]] {
            assert!(list.is_sorted());
            assert!(list.iter().all(|name| plain(name) == *name));
        }
        assert!(!OF_THE_WEB.iter().any(|name| LOCAL.contains(name)));
    }

    #[test]
    fn tool_is_local_or_of_strangers_however_its_name_is_spelt_m7_8_v11() {
        for tool in [
            "WebFetch",
            "web_search",
            "google_web_search",
            "mcp__gmail__read_email",
            "gmail.read",
            "http_get",
        ] {
            assert!(reads_strangers(tool) && !is_local(tool), "{tool}");
        }
        for tool in ["Bash", "shell", "run_shell_command", "Read", "apply_patch"] {
            assert!(is_local(tool) && !reads_strangers(tool), "{tool}");
        }
        // Of a tool that nobody knows, neither is certain.
        for tool in ["Task", "read_email", "result_read", "wine_search", ""] {
            assert!(!is_local(tool) && !reads_strangers(tool), "{tool}");
        }
        assert!(!is_local("mcp__files__read"));
    }
}
