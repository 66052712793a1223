//! Limits on the size of a query.

use super::EntryQuery;
use crate::entry::Tag;
use crate::warning::Invalid;

/// The maximum number of context values in one query.
const CONTEXT_MAX: usize = 64;
/// The maximum number of values in a filter that matches any or none of them.
const ANY_MAX: usize = 1_000;
/// The same for types: a view asks for all those of a policy, which may register a thousand beside the built-in ones.
const TYPES_MAX: usize = 2_000;

impl EntryQuery {
    /// Checks that the query stays within these limits.
    ///
    /// # Errors
    ///
    /// `tags_too_many` for more tags than an entry can have; `filter_too_large` names the field and the limit.
    pub fn check_size(&self) -> Result<(), Invalid> {
        if self.tags.len() > Tag::MAX_PER_ENTRY {
            return Err(Tag::too_many());
        }
        let any = [
            ("kind", self.kinds.len()),
            ("status", self.status.len()),
            ("owner", self.owner.len()),
            ("tags_any", self.tags_any.len()),
            ("tags_none", self.tags_none.len()),
        ];
        let any = any.map(|(field, count)| (field, count, ANY_MAX));
        let others = [
            ("context", self.context.len(), CONTEXT_MAX),
            ("type", self.types.len(), TYPES_MAX),
        ];
        for (field, count, max) in others.into_iter().chain(any) {
            if count > max {
                let message = format!("{count} values are more than the {max} that one query may name");
                return Err(Invalid::new("filter_too_large", field, message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn query_with_too_many_values_is_refused() {
        let tags = |count: usize| (0..count).map(|n| Tag::parse(&n.to_string()).unwrap()).collect();
        let context = |count: usize| (0..count).map(|n| (format!("k{n}"), json!(n))).collect();
        let most = EntryQuery {
            tags: tags(32),
            tags_any: tags(1_000),
            context: context(64),
            ..EntryQuery::default()
        };
        assert_eq!(most.check_size(), Ok(()));
        let more = |query: EntryQuery| query.check_size().unwrap_err().to_string();
        let many = EntryQuery {
            tags: tags(33),
            ..EntryQuery::default()
        };
        assert_eq!(more(many), "tags: there are more than 32");
        let many = EntryQuery {
            context: context(65),
            ..EntryQuery::default()
        };
        assert_eq!(
            more(many),
            "context: 65 values are more than the 64 that one query may name"
        );
        let many = EntryQuery {
            tags_none: tags(1_001),
            ..EntryQuery::default()
        };
        assert!(more(many).starts_with("tags_none: 1001 values"));
    }
}
