//! Leaving out default values when writing JSON.

/// Whether `value` is its type's default: for `skip_serializing_if`, together with `default`.
#[must_use]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
