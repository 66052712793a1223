//! What is left out where something is written as JSON.

/// Whether `value` is what it is when nothing is said: for `skip_serializing_if`, beside `default`.
#[must_use]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
