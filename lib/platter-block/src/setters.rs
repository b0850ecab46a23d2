//! Setters for public structs that may get more fields (`#[non_exhaustive]`): other crates cannot write all fields out.

/// Writes a method `with_FIELD` for each field: it returns the struct with another value there. With `const` the methods
/// can be used in constants; the struct must then have nothing to drop.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (const $name:ident { $($field:ident, $with:ident: $of:ty;)* }) => {
        impl $name {
            $(
                #[doc = concat!("The same with another [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub const fn $with(mut self, $field: $of) -> $name {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
    ($name:ident { $($field:ident, $with:ident: $of:ty;)* }) => {
        impl $name {
            $(
                #[doc = concat!("The same with another [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $with(mut self, $field: $of) -> $name {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
