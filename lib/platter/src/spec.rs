//! The device spec language: one line of text that names a stack of devices. Where the command and
//! [`registry::open`](crate::registry::open) take a spec, `@PATH` reads it from a file.
//!
//! ```text
//! /dev/sdb
//! raid0(chunk=128K, /dev/sdb, /dev/sdc, /dev/sdd)
//! cache(size=1G, readahead=ondemand, raid0(chunk=64K, a.img, b.img))
//! file("/data/my disk.img", elevator=cfq(quantum=8), depth=64)
//! ```
//!
//! # Grammar
//!
//! ```text
//! spec   = value
//! value  = call | word | string
//! call   = name "(" [ arg { "," arg } ] ")"
//! arg    = [ name "=" ] value
//! name   = letter { letter | digit | "_" | "-" }          (ASCII)
//! word   = one or more characters other than white space, control characters and  ( ) , = " \
//! string = '"' { character | escape } '"'                  (no line breaks or control characters)
//! escape = \" | \\ | \n | \r | \t | \u{hex} | \xHH
//! ```
//!
//! White space, line breaks, and comments (a `#` that starts a word, up to the end of its line) may appear
//! between any two of these. A trailing comma is an error, because on a command line it usually is a variable
//! that turned out empty.
//!
//! # The meaning of a bare word
//!
//! Where a device is expected (the whole spec, or a member of a stack) a bare word that equals a known device
//! name is that device without arguments; any other word, and every quoted string, is a path: `x` is short
//! for `file(x)`. So a file called `null` is written `"null"` or `./null`. Where a value is expected
//! (`sim(cheetah9lp)`, `depth=64`) a word is that value.
//!
//! A spec is UTF-8. The bytes of a path that is not UTF-8 are written `\xHH` in quotes: `"caf\xe9.img"`;
//! [`quote_path`] does so.
//!
//! # Reading a spec
//!
//! [`parse()`] checks syntax. Each device then reads its own arguments through [`Args`], described by a
//! [`Signature`]: tables of [`Argument`] rows, which arguments may be unnamed, and the number of devices below.
//! Nothing in this module does I/O. Every error is a [`SpecError`] that shows the spec and the position.
//!
//! # Secrets
//!
//! A secret in a URI (`iscsi://USER%SECRET@HOST/…`) is taken out of the text when it is parsed ([`conceal`]), so it is in no
//! error, no description and no `Display` of a spec. [`Args::text`] returns it to the device that reads the argument.
//!
//! # Bounds
//!
//! A spec is at most [`MAX_LEN`] bytes long and nests at most [`MAX_DEPTH`] calls deep.

mod args;
mod ast;
mod error;
mod params;
mod parse;
mod render;
mod secret;
mod source;
mod suggest;
mod value;

#[cfg(test)]
mod tests;

pub use args::{Args, Signature};
pub use ast::{Arg, ArgValue, Span, Spec, Word, quote, quote_path};
pub use error::{SpecError, SpecErrorKind};
pub use params::{Argument, ArgumentKind, Words, check_table};
pub use parse::{MAX_DEPTH, MAX_LEN, parse, parse_from};
pub use secret::{CONCEALED, conceal, is_secret, masked, reveal};
pub use suggest::closest;
pub use value::{
    ValueError, ValueErrorKind, format_size, format_time, parse_bool, parse_choice, parse_int, parse_number,
    parse_size, parse_time,
};
