//! Sifting the items of an answer before each of them is read in full (M7.3.23 to 25).

use serde_json::Value;

use super::{Channel, Rejection, ToolManifest, item};
use crate::observation::ObservationInput;
use crate::scratchbook::ItemInput;
use crate::warning::Invalid;

/// The content of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// An observation for the scratch page.
    Observation(Box<ObservationInput>),
    /// An item for the scratchbook.
    Memory(ItemInput),
}

/// An item that may be added.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposed {
    /// The array of the item.
    pub channel: Channel,
    /// The index of the item in its array, from 0.
    pub index: usize,
    /// The content of the item.
    pub content: Content,
}

/// The items of an answer, sifted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sifted {
    /// The items that may be added, in order.
    pub proposed: Vec<Proposed>,
    /// The items that are refused.
    pub rejected: Vec<Rejection>,
}

/// Sifts the items of an answer of `tool` one by one, so that an invalid item does not affect the others.
///
/// An item of `scratch_page_writes` that is equal to one of `observations` counts once with it. Two equal items of one
/// array count twice (M7.3.27).
#[must_use]
pub fn sift(channels: &[(Channel, &Value)], tool: &str, manifest: &ToolManifest) -> Sifted {
    let mut sifted = Sifted::default();
    let mut observed: Vec<&Value> = Vec::new();
    let mut count = 0;
    for (channel, items) in channels {
        let channel = *channel;
        let items: &[Value] = match items {
            Value::Null => continue,
            Value::Array(items) => items,
            _ => {
                let message = format!("{channel} is not a list");
                let rejection = Rejection::new(channel, 0, "channel_not_a_list", message);
                sifted.rejected.push(rejection);
                continue;
            }
        };
        for (index, item) in items.iter().enumerate() {
            match channel {
                Channel::Observations => observed.push(item),
                Channel::ScratchPageWrites => {
                    if let Some(position) = observed.iter().position(|other| *other == item) {
                        observed.swap_remove(position);
                        continue;
                    }
                }
                _ => {}
            }
            count += usize::from(channel != Channel::Observe);
            let result = if count > manifest.max_per_call && channel != Channel::Observe {
                let message = format!("the tool may bring {} items in one answer", manifest.max_per_call);
                Err(Rejection::new(channel, index, "too_many_items", message))
            } else {
                read(channel, index, item, (tool, manifest))
            };
            match result {
                Ok(content) => sifted.proposed.push(Proposed {
                    channel,
                    index,
                    content,
                }),
                Err(rejection) => sifted.rejected.push(rejection),
            }
        }
    }
    sifted
}

fn read(
    channel: Channel,
    index: usize,
    item: &Value,
    (tool, manifest): (&str, &ToolManifest),
) -> Result<Content, Rejection> {
    let wrong = |invalid: &_| Rejection::of(channel, index, invalid);
    if channel == Channel::MemoryWrites {
        return item::memory_write(item)
            .map(Content::Memory)
            .map_err(|invalid| wrong(&invalid));
    }
    let input = ObservationInput::from_json(item).map_err(|invalid| wrong(&invalid))?;
    let name = input.type_name.as_deref().unwrap_or("observation");
    if channel != Channel::Observe {
        let undeclared = |invalid: Invalid| Rejection::new(channel, index, &invalid.code, invalid.message);
        manifest.check_observes(tool, name).map_err(undeclared)?;
    }
    Ok(Content::Observation(Box::new(input)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sifted(channels: &[(Channel, Value)], manifest: &ToolManifest) -> (Vec<String>, Vec<String>) {
        let channels: Vec<_> = channels.iter().map(|(channel, items)| (*channel, items)).collect();
        let sifted = sift(&channels, "mail", manifest);
        let taken = sifted
            .proposed
            .iter()
            .map(|one| format!("{}[{}]", one.channel, one.index));
        let rejected = sifted.rejected.iter();
        let rejected = rejected.map(|one| format!("{}[{}] {}", one.channel, one.index, one.code));
        (taken.collect(), rejected.collect())
    }

    #[test]
    fn item_equal_in_both_arrays_is_taken_once_m7_3_24_and_27() {
        let item = json!({"content": "likes Burgundy"});
        let channels = [
            (Channel::Observations, json!([item, item])),
            (
                Channel::ScratchPageWrites,
                json!([item, {"content": "other"}, item, item]),
            ),
        ];
        let (taken, rejected) = sifted(&channels, &ToolManifest::default());
        let wanted = [
            "observations[0]",
            "observations[1]",
            "scratch_page_writes[1]",
            "scratch_page_writes[3]",
        ];
        assert_eq!((taken, rejected.len()), (wanted.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn invalid_item_is_rejected_by_index_and_others_are_taken_m7_3_25() {
        let channels = [
            (
                Channel::Observations,
                json!([
                    {"content": "fine"}, {"text": "no content"}, 7, {"content": "x", "type": "risk_alert"},
                    {"content": "x", "confidnce": 1}, {"content": "fine", "tags": "wine"}
                ]),
            ),
            (Channel::ScratchPageWrites, json!({"content": "not a list"})),
            (
                Channel::MemoryWrites,
                json!(["a fact", "", {"fact": "x", "kind": "dream"}, null]),
            ),
        ];
        let (taken, rejected) = sifted(&channels, &ToolManifest::default());
        assert_eq!(taken, ["observations[0]", "observations[5]", "memory_writes[0]"]);
        assert_eq!(
            rejected,
            [
                "observations[1] observation_malformed",
                "observations[2] observation_malformed",
                "observations[3] type_undeclared",
                "observations[4] observation_malformed",
                "scratch_page_writes[0] channel_not_a_list",
                "memory_writes[1] content_empty",
                "memory_writes[2] kind_invalid",
                "memory_writes[3] observation_malformed",
            ]
        );
    }

    #[test]
    fn items_over_the_limit_of_a_call_are_rejected_singly_m7_3_23() {
        let items: Vec<_> = (0..120).map(|n| json!({"content": n.to_string()})).collect();
        let channels = [(Channel::Observations, json!(items))];
        let (taken, rejected) = sifted(&channels, &ToolManifest::default());
        assert_eq!((taken.len(), rejected.len()), (100, 20));
        assert_eq!(rejected[0], "observations[100] too_many_items");
    }

    #[test]
    fn source_of_a_tool_item_is_kept_as_claimed_source_m7_3_31() {
        let item = json!([{"content": "x", "source": {"tool": "bank"}, "metadata": {"a": 1}}]);
        let sifted = sift(&[(Channel::Observations, &item)], "mail", &ToolManifest::default());
        let Content::Observation(input) = &sifted.proposed[0].content else {
            panic!("an observation")
        };
        assert_eq!(input.claimed_source, Some(json!({"tool": "bank"})));
        assert_eq!(input.metadata, Some(json!({"a": 1})));
    }
}
