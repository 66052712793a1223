//! Detects the language of a file by its name.

/// The language of a file with this name and extension (in lower case, without the dot).
pub(crate) fn language(name: &str, extension: &str) -> Option<&'static str> {
    by_name(name).or_else(|| by_extension(extension))
}

fn by_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "Makefile" | "makefile" | "GNUmakefile" => "Make",
        "Dockerfile" | "Containerfile" => "Dockerfile",
        "Justfile" | "justfile" => "Just",
        "CMakeLists.txt" => "CMake",
        "Rakefile" | "Gemfile" => "Ruby",
        "Jenkinsfile" => "Groovy",
        "BUILD" | "WORKSPACE" => "Starlark",
        _ => return None,
    })
}

fn by_extension(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "rs" => "Rust",
        "py" | "pyi" => "Python",
        "js" | "mjs" | "cjs" | "jsx" => "JavaScript",
        "ts" | "mts" | "cts" | "tsx" => "TypeScript",
        "go" => "Go",
        "java" => "Java",
        "kt" | "kts" => "Kotlin",
        "scala" | "sc" => "Scala",
        "c" | "h" => "C",
        "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" => "C++",
        "cs" => "C#",
        "fs" | "fsx" => "F#",
        "swift" => "Swift",
        "m" | "mm" => "Objective-C",
        "rb" => "Ruby",
        "php" => "PHP",
        "pl" | "pm" => "Perl",
        "lua" => "Lua",
        "r" => "R",
        "jl" => "Julia",
        "ex" | "exs" => "Elixir",
        "erl" | "hrl" => "Erlang",
        "hs" => "Haskell",
        "ml" | "mli" => "OCaml",
        "clj" | "cljs" | "cljc" => "Clojure",
        "dart" => "Dart",
        "zig" => "Zig",
        "nim" => "Nim",
        "sh" | "bash" | "zsh" | "fish" => "Shell",
        "ps1" => "PowerShell",
        "bat" | "cmd" => "Batch",
        "sql" => "SQL",
        "html" | "htm" => "HTML",
        "css" | "scss" | "sass" | "less" => "CSS",
        "vue" => "Vue",
        "svelte" => "Svelte",
        "md" | "markdown" => "Markdown",
        "rst" => "reStructuredText",
        "tex" => "TeX",
        "json" | "jsonl" | "json5" => "JSON",
        "yaml" | "yml" => "YAML",
        "toml" => "TOML",
        "xml" => "XML",
        "proto" => "Protocol Buffers",
        "graphql" | "gql" => "GraphQL",
        "tf" | "hcl" => "HCL",
        "nix" => "Nix",
        "cmake" => "CMake",
        "mk" => "Make",
        "gradle" | "groovy" => "Groovy",
        "asm" | "s" => "Assembly",
        "v" | "sv" => "Verilog",
        "vhd" | "vhdl" => "VHDL",
        "sol" => "Solidity",
        "wat" => "WebAssembly",
        "ipynb" => "Jupyter",
        _ => return None,
    })
}
