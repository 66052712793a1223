//! Puts the filter [`FITS`] around everything in a template that can make a value larger than its operands.
//!
//! The template language has no hook for that: `~`, `+` and `*`, lists and objects, and slices are steps of its own. So
//! the code of a template is parsed far enough to know where their operands begin and end; its meaning stays the same.
//! These get the filter:
//!
//! - every operand of `~` and `+`, and every product with a `*` in it;
//! - every list, tuple and object with more than one item, because `[x, x]` written repeatedly doubles its content;
//! - `x[1:]`, which copies.
//!
//! Text in the template that may be kept in a name is charged next to it ([`spent`]).

use super::bounds::FITS;
use super::source::{string_length, word_length};

/// How deeply nested brackets are parsed. The template language refuses code long before that.
const DEPTH_MAX: usize = 200;

/// The mark before what gets the filter. It contains a form feed, which nobody writes, so that it can be found again.
const BEFORE: &str = "((\x0c";

/// The code that charges `bytes` of text in the template.
pub(super) fn spent(bytes: usize) -> String {
    format!("{SPENT_BEFORE}{bytes}{SPENT_AFTER}")
}

const SPENT_BEFORE: &str = "{{\x0c''|__spent(";
const SPENT_AFTER: &str = ")}}";

/// A template without the marks, as its author wrote it.
pub(super) fn unmarked(code: &str) -> String {
    let mut plain = String::with_capacity(code.len());
    let mut rest = code;
    while let Some((before, after)) = rest.split_once(SPENT_BEFORE) {
        plain.push_str(before);
        rest = after.split_once(SPENT_AFTER).map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    // A piece of the code may contain only one half of a mark.
    let plain = plain.replace(BEFORE, "").replace('\x0c', "");
    plain.replace(&after(), "").replace(&format!(")|{FITS}"), "")
}

fn after() -> String {
    format!(")|{FITS})")
}

fn marked(text: &str) -> String {
    format!("{BEFORE}{text}{}", after())
}

/// Marks the code between `{{` and `}}`, between `{%` and `%}`, or a lone expression.
pub(super) fn mark(code: &str, is_statement: bool) -> String {
    let signs: &[char] = &['-', '+'];
    let inside = code.strip_prefix(signs).unwrap_or(code);
    let begin = &code[..code.len() - inside.len()];
    let inside = inside.strip_suffix(signs).unwrap_or(inside);
    let end = &code[begin.len() + inside.len()..];
    let mut reader = Reader { rest: inside, depth: 0 };
    let mut group = Group::default();
    if is_statement {
        reader.first_word(&mut group);
    }
    reader.read(&mut group, None);
    format!("{begin}{}{end}", group.done)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

/// The code between two brackets, or all of it.
#[derive(Default)]
struct Group {
    done: String,
    /// The operands of `~` and `+` read since the last operator that binds less tightly.
    chain: Vec<(Term, &'static str)>,
    term: Term,
    before: Before,
    commas: usize,
    colons: usize,
    /// Which names are being assigned, until the last of them was read.
    target: Option<Target>,
    /// Where the value of `set` begins, which may be a list without brackets, and the number of commas before it.
    value: Option<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    For,
    Set,
    With,
}

#[derive(Default)]
struct Term {
    text: String,
    /// Where the last operand begins that can be followed by `[…]`.
    primary: usize,
    is_product: bool,
}

/// The kind of the previous piece, as far as it matters.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Before {
    #[default]
    Operator,
    Operand,
    Pipe,
    Dot,
    Is,
    /// The name of a test, whose argument may follow without brackets.
    Test,
}

impl Group {
    fn push(&mut self, piece: &str, before: Before) {
        self.term.text.push_str(piece);
        self.before = before;
    }

    /// Ends an operand of `~` or `+`.
    fn operator(&mut self, operator: &'static str) {
        self.chain.push((std::mem::take(&mut self.term), operator));
        self.before = Before::Operator;
    }

    /// Ends everything that binds more tightly than what comes next.
    fn flush(&mut self) {
        let term = std::mem::take(&mut self.term);
        if self.chain.is_empty() && !term.is_product {
            self.done.push_str(&term.text);
        } else {
            let chain = std::mem::take(&mut self.chain);
            for (term, operator) in chain.into_iter().chain([(term, "")]) {
                let text = &term.text;
                let lead = text.len() - text.trim_start().len();
                self.done.push_str(&text[..lead]);
                if is_literal(text.trim()) {
                    self.done.push_str(&text[lead..]);
                } else {
                    self.done.push_str(&marked(&text[lead..]));
                }
                self.done.push_str(operator);
            }
        }
        self.before = Before::Operator;
    }

    fn separator(&mut self, piece: &str) {
        self.flush();
        self.done.push_str(piece);
    }

    /// Begins an operand that can be followed by `[…]`.
    fn primary(&mut self) {
        // Two adjacent texts are one.
        if self.before != Before::Operand {
            self.term.primary = self.term.text.len();
        }
    }
}

fn word_at(rest: &str) -> &str {
    &rest[..word_length(rest)]
}

/// Whether the code is empty, a number or one text, and so makes a value no longer than the template itself.
fn is_literal(text: &str) -> bool {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    quote.map_or(text.bytes().all(|byte| byte.is_ascii_digit()), |quote| {
        string_length(text, quote) == text.len()
    })
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        piece
    }

    fn first_word(&mut self, group: &mut Group) {
        let space = self.rest.len() - self.rest.trim_start().len();
        group.done.push_str(self.take(space));
        let word = self.take(word_length(self.rest));
        group.done.push_str(word);
        group.before = match word {
            "call" => Before::Operand,
            "filter" => Before::Pipe,
            _ => Before::Operator,
        };
        if word == "call" && self.rest.starts_with('(') {
            // The brackets after it contain names.
            self.brackets(group, '(');
            group.flush();
        }
        group.target = match word {
            "for" => Some(Target::For),
            "set" => Some(Target::Set),
            "with" => Some(Target::With),
            _ => None,
        };
    }

    /// Reads up to and including `close`, or to the end. Returns whether `close` was found.
    fn read(&mut self, group: &mut Group, close: Option<char>) -> bool {
        let kind = group.target;
        while let Some(c) = self.rest.chars().next() {
            if Some(c) == close {
                group.flush();
                return true;
            }
            match c {
                '"' | '\'' => {
                    group.primary();
                    let piece = self.take(string_length(self.rest, c));
                    group.push(piece, Before::Operand);
                }
                c if c.is_ascii_alphanumeric() || c == '_' => self.word(group),
                '(' | '[' | '{' if self.depth < DEPTH_MAX => self.brackets(group, c),
                '~' | '+' if matches!(group.before, Before::Operand | Before::Test) => {
                    self.take(1);
                    group.operator(if c == '~' { "~" } else { "+" });
                }
                '*' => {
                    let piece = self.take(if self.rest.starts_with("**") { 2 } else { 1 });
                    if group.before == Before::Operator && group.term.text.trim().is_empty() {
                        // It unpacks arguments: `f(*items)`.
                        group.separator(piece);
                    } else {
                        group.term.is_product |= piece.len() == 1;
                        group.push(piece, Before::Operator);
                    }
                }
                // It applies to numbers only, and binds less tightly than everything that is looked for here.
                '-' if matches!(group.before, Before::Operand | Before::Test) => group.separator(self.take(1)),
                '|' => group.push(self.take(1), Before::Pipe),
                '.' => group.push(self.take(1), Before::Dot),
                '=' => {
                    let piece = self.take(if self.rest.starts_with("==") { 2 } else { 1 });
                    let is_assignment = piece.len() == 1 && close.is_none();
                    group.separator(piece);
                    if is_assignment && group.target.take() == Some(Target::Set) {
                        group.value = Some((group.done.len(), group.commas));
                    }
                }
                '!' | '<' | '>' => {
                    let piece = self.take(if self.rest[1..].starts_with('=') { 2 } else { 1 });
                    group.separator(piece);
                }
                ',' => {
                    group.commas += 1;
                    group.separator(self.take(1));
                    if kind == Some(Target::With) {
                        group.target = kind;
                    }
                }
                ':' => {
                    group.colons += 1;
                    group.separator(self.take(1));
                }
                c => {
                    let piece = self.take(c.len_utf8());
                    group.term.text.push_str(piece);
                }
            }
        }
        group.flush();
        if let Some((at, commas)) = group.value
            && group.commas > commas
        {
            let value = marked(&group.done[at..]);
            group.done.truncate(at);
            group.done.push_str(&value);
        }
        false
    }

    fn word(&mut self, group: &mut Group) {
        let word = self.take(word_length(self.rest));
        match (group.before, word) {
            (Before::Dot | Before::Pipe, _) => group.push(word, Before::Operand),
            (Before::Is, "not") => group.push(word, Before::Is),
            (Before::Is, _) => group.push(word, Before::Test),
            // Where an operand has to follow, all of these are names.
            (Before::Operand | Before::Test, "is") => group.push(word, Before::Is),
            (Before::Operand | Before::Test, "and" | "or" | "else") | (Before::Operator, "not") => {
                group.separator(word);
            }
            (Before::Operand, "if") => group.separator(word),
            (Before::Operand, "in") => {
                group.separator(word);
                group.target = group.target.filter(|target| *target != Target::For);
            }
            (Before::Operand, "not") => {
                group.separator(word);
                let space = self.rest.len() - self.rest.trim_start().len();
                if word_at(&self.rest[space..]) == "in" {
                    group.done.push_str(self.take(space + 2));
                }
            }
            // Part of a `for` statement.
            (Before::Operand, "recursive") => {
                group.flush();
                group.push(word, Before::Operand);
            }
            // It follows an operator that is skipped here, such as `/`; or it is a mistake, which must not become a
            // call through an added bracket.
            (Before::Operand, _) => group.push(word, Before::Operand),
            _ => {
                group.primary();
                group.push(word, Before::Operand);
            }
        }
    }

    fn brackets(&mut self, group: &mut Group, open: char) {
        let close = match open {
            '(' => ')',
            '[' => ']',
            _ => '}',
        };
        let is_primary = match group.before {
            Before::Operand => false,
            Before::Test => open != '(',
            _ => true,
        };
        if is_primary || open == '{' {
            group.primary();
        }
        self.take(1);
        let mut inner = Group::default();
        self.depth += 1;
        let is_whole = self.read(&mut inner, Some(close));
        self.depth -= 1;
        let mut text = format!("{open}{}", inner.done);
        if is_whole {
            text.push(close);
            self.take(1);
        }
        // After an operand it is a mistake, and an added bracket would make it a call.
        let begins = group.before != Before::Operand;
        let is_list = (is_primary || (open == '{' && begins)) && inner.commas > 0 && group.target.is_none();
        if is_whole && is_list {
            text = marked(&text);
        }
        group.push(&text, Before::Operand);
        if is_whole && !is_primary && open == '[' && inner.colons > 0 {
            let part = marked(&group.term.text[group.term.primary..]);
            group.term.text.truncate(group.term.primary);
            group.term.text.push_str(&part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `<` and `>` for what is put around things.
    fn shown(code: &str, is_statement: bool) -> String {
        let marked = mark(code, is_statement);
        assert_eq!(unmarked(&marked), code);
        marked.replace(BEFORE, "‹").replace(&after(), "›")
    }

    #[test]
    fn mark_wraps_operands_lists_and_slices_in_the_filter() {
        for (code, expected) in [
            ("a", "a"),
            ("a ~ b", "‹a ›~ ‹b›"),
            ("a ~ 'x' + 1", "‹a ›~ 'x' + 1"),
            ("a.b[0] + f(c ~ d)|g", "‹a.b[0] ›+ ‹f(‹c ›~ ‹d›)|g›"),
            ("a * 2", "‹a * 2›"),
            ("a ** 2", "a ** 2"),
            ("a * 2 ~ b", "‹a * 2 ›~ ‹b›"),
            ("a * 2 - b * 3", "‹a * 2 ›- ‹b * 3›"),
            ("(-a ~ b)", "(‹-a ›~ ‹b›)"),
            ("(a ~ b) * 2", "‹(‹a ›~ ‹b›) * 2›"),
            ("a ~ b == c and d ~ e", "‹a ›~ ‹b ›== c and ‹d ›~ ‹e›"),
            ("not a ~ b", "not ‹a ›~ ‹b›"),
            ("a ~ b if c ~ d else e ~ f", "‹a ›~ ‹b ›if ‹c ›~ ‹d ›else ‹e ›~ ‹f›"),
            ("a not in b ~ c", "a not in ‹b ›~ ‹c›"),
            ("a is not divisibleby(3) ~ b", "‹a is not divisibleby(3) ›~ ‹b›"),
            ("a is divisibleby -3", "a is divisibleby -3"),
            ("a is eq b ~ c", "‹a is eq b ›~ ‹c›"),
            ("[a]", "[a]"),
            ("[a, b][0]", "‹[a, b]›[0]"),
            ("(a, b)", "‹(a, b)›"),
            ("f(a, b)", "f(a, b)"),
            ("f(*a, **b)", "f(*a, **b)"),
            ("f(x=a ~ b)", "f(x=‹a ›~ ‹b›)"),
            ("{'a': x, 'b': [x]}", "‹{'a': x, 'b': [x]}›"),
            ("a.b[1:].c", "‹a.b[1:]›.c"),
            ("- a[:2]", "- ‹a[:2]›"),
            ("'a, b ~ c' ~ \"d\"", "'a, b ~ c' ~ \"d\""),
            ("a / b ~ c // d", "‹a / b ›~ ‹c // d›"),
            ("a ~", "‹a ›~"),
            ("a b ~ c", "‹a b ›~ ‹c›"),
            ("a or [0]a ~ a", "a or ‹[0]a ›~ ‹a›"),
            ("a {'k': b, 'j': c}", "a {'k': b, 'j': c}"),
            ("[a, (b", "[a, (b"),
            ("- a ~ b -", "- ‹a ›~ ‹b ›-"),
        ] {
            assert_eq!(shown(code, false), expected);
        }
    }

    #[test]
    fn mark_leaves_assigned_names_in_statements_unchanged() {
        for (code, expected) in [
            (
                " for (a, b), c in d ~ e if f ~ g recursive ",
                " for (a, b), c in ‹d ›~ ‹e ›if ‹f ›~ ‹g ›recursive ",
            ),
            ("- set x = x, x -", "- set x =‹ x, x ›-"),
            (" set (a, b) = [x, x] ", " set (a, b) = ‹[x, x]› "),
            (" set a, b = c ", " set a, b = c "),
            (" set x | upper ", " set x | upper "),
            (
                " with (a, b) = c, (d, e) = (f, g) ",
                " with (a, b) = c, (d, e) = ‹(f, g)› ",
            ),
            (" macro f(a, b='x' ~ c) ", " macro f(a, b='x' ~ ‹c›) "),
            (" call(a, b) f(x ~ y) ", " call(a, b) f(‹x ›~ ‹y›) "),
            (" filter replace(a ~ b, c) ", " filter replace(‹a ›~ ‹b›, c) "),
            (" elif a ~ b ", " elif ‹a ›~ ‹b ›"),
        ] {
            assert_eq!(shown(code, true), expected);
        }
    }
}
