//! The section `scratchbook`: how much of a scratchbook a model reads, and where (seed 003, A3; M7.8 V1, V6).

use serde::{Deserialize, Serialize};

use crate::from_object::read_from_an_object;
use crate::view::Placement;
use crate::warning::Invalid;

/// The largest window, in tokens, that counts as small (M7.8 V6).
pub const SMALL_WINDOW: u32 = 8 * 1024;
/// The reason given to those who ask for a scratchbook in a space whose policy has none.
pub const SCRATCHBOOKS_OFF: &str = "scratchbooks are switched off by the policy of the space (scratchbook.enabled)";
/// The maximum share of a window that a view takes, in percent (M7.8 V1).
const WINDOW_SHARE: u64 = 20;
/// The maximum number of tokens that can be set for a view.
const MAX_TOKENS: u32 = 100_000;
/// The maximum number of lines that can be set for a section of a view.
const MAX_ITEMS: u32 = 200;

/// The kind of model that the defaults are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A model on the same machine with a small window: 700 tokens, 20 lines per section, no list of tools in the
    /// prompt.
    OnDevice,
    /// Any other model: 800 tokens, 40 lines per section, with the list of tools.
    #[default]
    Cloud,
}

/// The settings of scratchbooks. The profile provides what is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct ScratchbookPolicy {
    /// Whether models get scratchbooks at all. If not, there is no view and no `scratch_*` tool.
    pub enabled: bool,
    /// The kind of model that the defaults are for.
    pub profile: Profile,
    /// The folder of scratchbook files in the virtual file system; begins with `/`.
    pub path_prefix: String,
    /// The maximum number of tokens of a view; 20 % of the window if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_token_limit: Option<u32>,
    /// The maximum number of lines in one section of a view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rendered_items: Option<u32>,
    /// Whether the conversation of a run's task that outgrows the window is offloaded, with a summary in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact: Option<bool>,
    /// Whether the system prompt lists the tools, although their definitions are sent separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_tool_list_in_system_prompt: Option<bool>,
    /// Where the view stands in the request to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

read_from_an_object!(ScratchbookPolicy);

impl Default for ScratchbookPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            profile: Profile::default(),
            path_prefix: "/scratchbook".to_owned(),
            view_token_limit: None,
            max_rendered_items: None,
            auto_compact: None,
            include_tool_list_in_system_prompt: None,
            placement: None,
        }
    }
}

/// Returns `limit`, or the share of the window that a view may take if that is less (M7.8 V1).
#[must_use]
pub fn within_share(limit: u32, window: Option<u32>) -> u32 {
    let share = window.map(|window| u64::from(window) * WINDOW_SHARE / 100);
    share.map_or(limit, |share| limit.min(u32::try_from(share).unwrap_or(u32::MAX)))
}

impl ScratchbookPolicy {
    /// The maximum number of tokens of a view for a model with a window of this size; 0 if scratchbooks are off (M7.8
    /// V1).
    #[must_use]
    pub fn budget(&self, window: Option<u32>) -> u32 {
        if !self.enabled {
            return 0;
        }
        within_share(self.view_tokens(), window)
    }

    /// The maximum number of tokens of a view, regardless of the window.
    pub(super) fn view_tokens(&self) -> u32 {
        self.view_token_limit.unwrap_or(match self.profile {
            Profile::OnDevice => 700,
            Profile::Cloud => 800,
        })
    }

    /// The maximum number of lines in one section of a view.
    #[must_use]
    pub fn max_rendered_items(&self) -> u32 {
        self.max_rendered_items.unwrap_or(match self.profile {
            Profile::OnDevice => 20,
            Profile::Cloud => 40,
        })
    }

    /// Whether the conversation of a run's task that outgrows the window is offloaded; true by default.
    #[must_use]
    pub fn auto_compact(&self) -> bool {
        self.auto_compact.unwrap_or(true)
    }

    /// Whether the system prompt lists the tools.
    #[must_use]
    pub fn includes_tool_list(&self) -> bool {
        self.include_tool_list_in_system_prompt
            .unwrap_or(self.profile == Profile::Cloud)
    }

    /// Where the view stands for a model with a window of this size: in the system prompt if the window is small, at
    /// the tail otherwise (M7.8 V6). If the size is unknown, the profile decides.
    #[must_use]
    pub fn placement(&self, window: Option<u32>) -> Placement {
        let is_small = window.map_or(self.profile == Profile::OnDevice, |window| window <= SMALL_WINDOW);
        let usual = if is_small { Placement::System } else { Placement::Tail };
        self.placement.unwrap_or(usual)
    }

    /// What is wrong with the settings.
    pub(super) fn mistakes(&self) -> Vec<Invalid> {
        let wrong = |message| Invalid::new("policy_invalid", "scratchbook", message);
        let mut all = Vec::new();
        if let Some(tokens) = self.view_token_limit.filter(|tokens| *tokens > MAX_TOKENS) {
            all.push(wrong(format!("view_token_limit {tokens} is more than {MAX_TOKENS}")));
        }
        if let Some(items) = self
            .max_rendered_items
            .filter(|items| *items == 0 || *items > MAX_ITEMS)
        {
            all.push(wrong(format!(
                "max_rendered_items {items} is not from 1 to {MAX_ITEMS}"
            )));
        }
        let is_path = self.path_prefix.starts_with('/') && !self.path_prefix.ends_with('/');
        let is_plain = self
            .path_prefix
            .split('/')
            .skip(1)
            .all(|part| !matches!(part, "" | "." | ".."));
        if !(is_path && is_plain) {
            let message = format!("path_prefix {:?} is not a path like \"/scratchbook\"", self.path_prefix);
            all.push(wrong(message));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(value: serde_json::Value) -> ScratchbookPolicy {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn scratchbook_profiles_have_the_limits_of_seed_003_m7_8_v1() {
        let cloud = policy(json!({}));
        assert_eq!((cloud.budget(None), cloud.max_rendered_items()), (800, 40));
        assert!(cloud.includes_tool_list() && cloud.auto_compact());
        let device = policy(json!({"profile": "on_device"}));
        assert_eq!((device.budget(None), device.max_rendered_items()), (700, 20));
        assert!(!device.includes_tool_list() && device.auto_compact());
        assert_eq!(policy(json!({"enabled": false})).budget(None), 0);
    }

    #[test]
    fn view_budget_is_at_most_a_fifth_of_the_window_m7_8_v1() {
        assert_eq!(policy(json!({})).budget(Some(2_000)), 400);
        assert_eq!(policy(json!({})).budget(Some(128_000)), 800);
        assert_eq!(policy(json!({"view_token_limit": 3_000})).budget(Some(10_000)), 2_000);
    }

    #[test]
    fn small_window_places_the_view_in_the_system_prompt_m7_8_v6() {
        let cloud = policy(json!({}));
        assert_eq!(cloud.placement(Some(8_192)), Placement::System);
        assert_eq!(cloud.placement(Some(8_193)), Placement::Tail);
        assert_eq!(cloud.placement(None), Placement::Tail);
        assert_eq!(
            policy(json!({"profile": "on_device"})).placement(None),
            Placement::System
        );
        assert_eq!(
            policy(json!({"placement": "system"})).placement(Some(200_000)),
            Placement::System
        );
    }

    #[test]
    fn invalid_scratchbook_policy_is_refused() {
        for (wrong, field) in [
            (json!({"max_rendered_items": 0}), "max_rendered_items"),
            (json!({"view_token_limit": 1_000_000}), "view_token_limit"),
            (json!({"path_prefix": "scratchbook"}), "path_prefix"),
            (json!({"path_prefix": "/a/../b"}), "path_prefix"),
        ] {
            let invalid = policy(wrong.clone()).mistakes().remove(0);
            assert_eq!(invalid.field, "scratchbook", "{wrong}");
            assert!(invalid.message.contains(field), "{wrong}: {invalid}");
        }
        assert!(policy(json!({})).mistakes().is_empty());
    }
}
