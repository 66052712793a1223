//! Limits on the texts and lists that a template makes while it runs, whose length nobody sees.
//!
//! Fuel counts steps, and one step can double a text or repeat it a million times. So everything that makes a value
//! longer than its operands is charged to one account for each template that is filled in: the filters here, the
//! formatter, and the operators and literals that [`marks`](super::marks) wraps in the filter [`FITS`]. What can become
//! very long at once is calculated before it is made.

use minijinja::value::{Rest, Value as Seen, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters, functions};

use super::{DEPTH_MAX, OUTPUT_BYTES_MAX, view};

/// The most bytes that one template may make on its way to its result, all texts and lists taken together.
const MADE_BYTES_MAX: usize = 8 * OUTPUT_BYTES_MAX;

/// The filter around the operands of operators and around literals: charges the value and returns it unchanged.
pub(super) const FITS: &str = "__fits";

/// The filter beside text in the template: charges the given number of bytes and returns an empty text.
const SPENT: &str = "__spent";

/// The bytes that an item of a list takes in addition to its content.
const ITEM_BYTES: usize = 32;

/// The bytes that a character takes as an item of a list.
const CHARACTER_BYTES: usize = 32;

/// How far `pprint` indents the items of the most deeply nested list, for each byte that they are counted as.
const PRETTY_FACTOR: usize = 4 * DEPTH_MAX / ITEM_BYTES;

/// The bytes charged to the template that is being filled in.
struct Account(usize);

fn too_large() -> Error {
    Error::new(ErrorKind::InvalidOperation, view::TOO_LARGE)
}

/// Whether an error says that a limit of size was reached, one of ours or of the template language (`'a' * 999999999`).
pub(super) fn is_too_large(error: &Error) -> bool {
    let is_repeated = |detail: &str| detail.starts_with("repeated ") && detail.ends_with(" is too large");
    error
        .detail()
        .is_some_and(|detail| detail == view::TOO_LARGE || is_repeated(detail))
}

fn room(state: &State<'_, '_>) -> usize {
    let spent = state.get_extension::<Account>().map_or(0, |account| account.0);
    MADE_BYTES_MAX - spent
}

/// Charges `bytes` to the account.
pub(super) fn spend(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let left = room(state).checked_sub(bytes).ok_or_else(too_large)?;
    state.get_or_insert_extension(Account(0)).0 = MADE_BYTES_MAX - left;
    Ok(())
}

/// Charges a value with everything in it, as often as it occurs.
fn spend_value(state: &mut State<'_, '_>, value: &Seen) -> Result<(), Error> {
    let before = room(state);
    let mut left = before;
    take_from(&mut left, value, DEPTH_MAX)?;
    spend(state, before - left)
}

/// The approximate size of `value` in bytes; an error if a template may not make that many.
fn bytes_of(value: &Seen) -> Result<usize, Error> {
    let mut left = MADE_BYTES_MAX;
    take_from(&mut left, value, DEPTH_MAX)?;
    Ok(MADE_BYTES_MAX - left)
}

fn take_from(left: &mut usize, value: &Seen, depth_left: usize) -> Result<(), Error> {
    let mut charge = |bytes: usize| -> Result<(), Error> {
        *left = left.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    };
    if let Some(bytes) = view::bytes_of_branch(value) {
        return charge(bytes);
    }
    match value.kind() {
        ValueKind::String => return charge(value.as_str().map_or(0, str::len)),
        ValueKind::Bytes => return charge(value.as_bytes().map_or(0, <[u8]>::len)),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {}
        // Numbers and the like. Values that cannot be used fail where they are used.
        _ => return Ok(()),
    }
    let below = depth_left
        .checked_sub(1)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "it is nested too deeply"))?;
    // Going through a list that does not fit takes as long as making it.
    if value
        .len()
        .is_some_and(|items| items.saturating_mul(ITEM_BYTES) > *left)
    {
        return Err(too_large());
    }
    let is_map = value.kind() == ValueKind::Map;
    for item in value.try_iter()?.checked() {
        let item = item?;
        *left = left.checked_sub(ITEM_BYTES).ok_or_else(too_large)?;
        take_from(left, &item, below)?;
        if is_map {
            take_from(left, &value.get_item(&item)?, below)?;
        }
    }
    Ok(())
}

/// Replaces the built-in filters and functions that can return more than they take by ones that count it, and adds the
/// two filters of the marks.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(FITS, |state: &mut State<'_, '_>, value: Seen| {
        spend_value(state, &value).map(|()| value)
    });
    environment.add_filter(SPENT, |state: &mut State<'_, '_>, _nothing: Seen, bytes: usize| {
        spend(state, bytes).map(|()| "")
    });
    macro_rules! bounded {
        ($($need:ident: $($name:ident)+;)+) => {
            $($(add_filter(environment, stringify!($name), Seen::from_function(filters::$name), $need);)+)+
        };
    }
    // Filters that are not listed return a number, a part of their operand, or nothing of their own: `first`, `length`,
    // `default` …
    bounded! {
        needs_no_bytes: upper lower title capitalize trim string escape safe dictsort;
        of_items: reverse list sort unique map select reject selectattr rejectattr groupby;
        of_lists: zip chain;
        of_batches: batch slice;
        of_parts: split lines;
        of_join: join;
        of_replace: replace;
        of_indent: indent;
        of_format: format;
        of_pretty: pprint;
        of_sum: sum;
    }
    add_filter(environment, "e", Seen::from_function(filters::escape), needs_no_bytes);
    let dict = Seen::from_function(functions::dict);
    environment.add_function("dict", move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let value = dict.call(state, &args.into_values())?;
        spend_value(state, &value).map(|()| value)
    });
}

/// Adds a filter that charges what it returns. `need` calculates beforehand how many bytes it will make, if that can be
/// much more than its operands.
pub(super) fn add_filter(
    environment: &mut Environment<'static>,
    name: &'static str,
    filter: Seen,
    need: fn(&[Seen]) -> Result<usize, Error>,
) {
    environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        if need(&args)? > room(state) {
            return Err(too_large());
        }
        let value = filter.call(state, &args)?;
        spend_value(state, &value).map(|()| value)
    });
}

#[expect(clippy::unnecessary_wraps, reason = "one of several with the same form")]
pub(super) fn needs_no_bytes(_: &[Seen]) -> Result<usize, Error> {
    Ok(0)
}

fn text(args: &[Seen], at: usize) -> &str {
    args.get(at).and_then(Seen::as_str).unwrap_or_default()
}

fn number(args: &[Seen], at: usize) -> usize {
    args.get(at).and_then(Seen::as_usize).unwrap_or_default()
}

/// The argument at a position, or else the one with the given name.
fn named<'a>(args: &'a [Seen], at: usize, name: &str) -> Option<std::borrow::Cow<'a, Seen>> {
    let by_name = args.last().filter(|last| last.is_kwargs());
    match args.get(at).filter(|found| !found.is_kwargs()) {
        Some(found) => Some(std::borrow::Cow::Borrowed(found)),
        None => by_name
            .and_then(|names| names.get_attr(name).ok())
            .map(std::borrow::Cow::Owned),
    }
}

/// A text is treated as a list of its characters.
fn of_items(args: &[Seen]) -> Result<usize, Error> {
    Ok(text(args, 0).len().saturating_mul(CHARACTER_BYTES))
}

fn of_lists(args: &[Seen]) -> Result<usize, Error> {
    let items = args.iter().map(|list| list.len().unwrap_or_default()).sum::<usize>();
    Ok(items.saturating_mul(CHARACTER_BYTES))
}

fn of_batches(args: &[Seen]) -> Result<usize, Error> {
    let fill_bytes = args.get(2).map_or(Ok(0), bytes_of)?.saturating_add(CHARACTER_BYTES);
    Ok(of_items(args)?.saturating_add(number(args, 1).saturating_mul(fill_bytes)))
}

fn of_parts(args: &[Seen]) -> Result<usize, Error> {
    let (whole, separator) = (text(args, 0), text(args, 1));
    let parts = match separator {
        "" => whole.split(char::is_whitespace).count(),
        separator => whole.matches(separator).count() + 1,
    };
    Ok(parts.saturating_mul(CHARACTER_BYTES).saturating_add(whole.len()))
}

fn of_join(args: &[Seen]) -> Result<usize, Error> {
    let Some(list) = args.first() else {
        return Ok(0);
    };
    let between = named(args, 1, "d").and_then(|between| between.as_str().map(str::len));
    let items = list
        .len()
        .unwrap_or_default()
        .saturating_mul(between.unwrap_or_default());
    Ok(bytes_of(list)?.saturating_add(items))
}

fn of_replace(args: &[Seen]) -> Result<usize, Error> {
    let (whole, from, to) = (text(args, 0), text(args, 1), text(args, 2));
    let places = whole.matches(from).count();
    Ok(whole.len().saturating_add(places.saturating_mul(to.len())))
}

fn of_indent(args: &[Seen]) -> Result<usize, Error> {
    let whole = text(args, 0);
    let width = named(args, 1, "width");
    let width = width.map_or(4, |width| {
        width.as_usize().or(width.as_str().map(str::len)).unwrap_or_default()
    });
    let lines = whole.matches('\n').count() + 1;
    Ok(whole.len().saturating_add(lines.saturating_mul(width)))
}

/// Counts every width in the text or given for a `*`, and every inserted value, once for each place.
fn of_format(args: &[Seen]) -> Result<usize, Error> {
    let form = text(args, 0);
    let widths = form
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty());
    let mut bytes = form.len();
    for width in widths {
        bytes = bytes.saturating_add(width.parse().unwrap_or(usize::MAX));
    }
    let places = form.matches('%').count();
    for value in &args[1.min(args.len())..] {
        let width = if form.contains('*') {
            value.as_i64().unwrap_or_default().unsigned_abs()
        } else {
            0
        };
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        bytes = bytes
            .saturating_add(width)
            .saturating_add(bytes_of(value)?.saturating_mul(places));
    }
    Ok(bytes)
}

fn of_pretty(args: &[Seen]) -> Result<usize, Error> {
    let bytes = args.first().map_or(Ok(0), bytes_of)?;
    Ok(bytes.saturating_mul(PRETTY_FACTOR))
}

/// If the sum starts with a text or a list, everything before an item is copied for each item.
fn of_sum(args: &[Seen]) -> Result<usize, Error> {
    let start = named(args, 2, "start");
    let Some(list) = args.first().filter(|_| start.is_some_and(|start| !start.is_number())) else {
        return Ok(0);
    };
    Ok(bytes_of(list)?.saturating_mul(list.len().unwrap_or_default()) / 2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use minijinja::value::{Enumerator, Object, ObjectRepr};

    use super::*;

    /// A list of so many numbers, which counts how many of them somebody looked at.
    #[derive(Debug)]
    struct Looked(usize, Arc<AtomicUsize>);

    impl Object for Looked {
        fn repr(self: &Arc<Self>) -> ObjectRepr {
            ObjectRepr::Seq
        }

        fn enumerate(self: &Arc<Self>) -> Enumerator {
            Enumerator::Seq(self.0)
        }

        fn get_value(self: &Arc<Self>, _: &Seen) -> Option<Seen> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Some(Seen::from(1))
        }
    }

    #[test]
    fn list_that_does_not_fit_is_refused_before_it_is_gone_through() {
        let looked = |items: usize| {
            let count = Arc::new(AtomicUsize::new(0));
            let mut left = 10 * ITEM_BYTES;
            let list = Seen::from_object(Looked(items, Arc::clone(&count)));
            let fits = take_from(&mut left, &Seen::from(vec![list]), DEPTH_MAX).is_ok();
            (fits, count.load(Ordering::Relaxed), left / ITEM_BYTES)
        };
        assert_eq!(looked(9), (true, 9, 0));
        let (fits, seen, _) = looked(10);
        assert_eq!((fits, seen), (false, 0));
    }
}
