//! How a device reads its arguments.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::ast::{Arg, ArgValue, Span, Spec};
use super::error::{SpecError, SpecErrorKind, list, shown};
use super::params::{Argument, Value, default_value};
use super::secret::revealed;
use super::suggest::closest;
use super::value::{ValueError, ValueErrorKind};

/// The arguments that a device takes.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The parameters that may be given without their names, in order, before all other unnamed arguments.
    pub unnamed: &'static [&'static str],
    /// The device's parameters, in one or more tables: its own, those of every queue.
    pub tables: &'static [&'static [Argument]],
    /// Number of devices below, which are the remaining unnamed arguments. `0..=0` for a disk.
    pub devices: RangeInclusive<usize>,
}

impl Signature {
    fn params(&self) -> impl Iterator<Item = &'static Argument> + Clone + use<> {
        self.tables.iter().copied().flatten()
    }

    fn find(&self, name: &str) -> Option<&'static Argument> {
        self.params().find(|param| param.name == name)
    }
}

/// The arguments of one device, checked against its [`Signature`] and read one by one.
///
/// ```
/// use platter::spec::{Args, Argument, ArgumentKind, Signature, SpecError, parse};
///
/// const CHUNK: Argument = Argument {
///     name: "chunk",
///     kind: ArgumentKind::Size { min: 4096, max: 1 << 30 },
///     default: "64K",
///     help: "bytes on one disk before the next",
/// };
/// let raid0 = Signature { unnamed: &[], tables: &[&[CHUNK]], devices: 2..=64 };
///
/// let spec = parse("raid0(chunk=128K, a.img, b.img)", &["file", "raid0"])?;
/// let mut args = Args::new(&spec, &raid0)?;
/// assert_eq!(args.size("chunk")?, 128 << 10);
/// assert_eq!(args.devices().len(), 2);
/// args.finish()?;
/// # Ok::<(), SpecError>(())
/// ```
#[derive(Debug)]
pub struct Args<'s> {
    spec: &'s Spec,
    signature: Signature,
    bound: Vec<Bound>,
    devices: Vec<Cow<'s, Spec>>,
    devices_read: bool,
}

/// A parameter with the value given for it.
#[derive(Debug)]
struct Bound {
    param: &'static Argument,
    value: Value,
    /// The span of the whole argument.
    span: Span,
    /// The span of its value.
    value_span: Span,
    read: bool,
}

impl<'s> Args<'s> {
    /// Matches the arguments of `spec` with their parameters, and checks every given value.
    ///
    /// # Errors
    ///
    /// The first, in the order of the text, of: an unknown or repeated name, a value of the wrong kind or out
    /// of range, a surplus unnamed argument, an unknown device; then a wrong number of devices.
    pub fn new(spec: &'s Spec, signature: &Signature) -> Result<Self, SpecError> {
        let signature = signature.clone();
        let mut args = Args { spec, signature, bound: Vec::new(), devices: Vec::new(), devices_read: false };
        let mut unnamed = args.signature.unnamed.iter();
        for arg in spec.args() {
            let param = match arg.name() {
                Some(name) => Some(args.named(arg, name)?),
                None => unnamed.next().map(|name| args.declared(name)).transpose()?,
            };
            match param {
                Some(param) => args.bind(arg, param)?,
                None => args.add_device(arg)?,
            }
        }
        args.check_count()?;
        Ok(args)
    }

    /// The size given for `name`, or its default, in bytes.
    ///
    /// # Errors
    ///
    /// As all readers of one argument: [`MissingArgument`](SpecErrorKind::MissingArgument) if none is given and
    /// there is no default; [`Table`](SpecErrorKind::Table) if the signature has no such parameter of this kind.
    pub fn size(&mut self, name: &str) -> Result<u64, SpecError> {
        self.read(name, "a size", |value| if let Value::Size(n) = value { Some(n) } else { None })
    }

    /// The time given for `name`, or its default. Errors as for [`Args::size`].
    pub fn time(&mut self, name: &str) -> Result<Duration, SpecError> {
        self.read(name, "a time", |value| if let Value::Time(t) = value { Some(t) } else { None })
    }

    /// The whole number given for `name`, or its default. Errors as for [`Args::size`].
    pub fn int(&mut self, name: &str) -> Result<u64, SpecError> {
        self.read(name, "a whole number", |value| if let Value::Int(n) = value { Some(n) } else { None })
    }

    /// The number given for `name`, or its default, in the unit of its kind. Errors as for [`Args::size`].
    pub fn number(&mut self, name: &str) -> Result<i64, SpecError> {
        self.read(name, "a number", |value| if let Value::Number(n) = value { Some(n) } else { None })
    }

    /// The switch given for `name`, or its default. Errors as for [`Args::size`].
    pub fn flag(&mut self, name: &str) -> Result<bool, SpecError> {
        self.read(name, "on or off", |value| if let Value::Bool(on) = value { Some(on) } else { None })
    }

    /// The choice given for `name`, or its default. Errors as for [`Args::size`].
    pub fn one_of(&mut self, name: &str) -> Result<&'static str, SpecError> {
        self.read(name, "a choice", |value| if let Value::Choice(word) = value { Some(word) } else { None })
    }

    /// The text given for `name`, or its default; a URI with its secrets, which are not in the spec's own text. Errors as for
    /// [`Args::size`].
    pub fn text(&mut self, name: &str) -> Result<String, SpecError> {
        let read = |value| if let Value::Text(text) = value { Some(text) } else { None };
        self.read(name, "a word", read).map(revealed)
    }

    /// The path given for `name`, or its default. Errors as for [`Args::size`].
    pub fn path(&mut self, name: &str) -> Result<PathBuf, SpecError> {
        self.read(name, "a path", |value| if let Value::Path(path) = value { Some(path) } else { None })
    }

    /// The name with arguments given for `name`, or its default, to be read by separate `Args`. Errors as for
    /// [`Args::size`].
    pub fn nested(&mut self, name: &str) -> Result<Spec, SpecError> {
        self.read(name, "nested", |value| if let Value::Nested(spec) = value { Some(spec) } else { None })
    }

    /// The device given for `name`, or its default. Errors as for [`Args::size`].
    pub fn device(&mut self, name: &str) -> Result<Spec, SpecError> {
        let value =
            self.read(name, "a device", |value| if let Value::Device(v) = value { Some(v) } else { None })?;
        value.as_device(&self.spec.source).map(Cow::into_owned)
    }

    /// The devices below this one, in order; their number is as the signature allows.
    pub fn devices(&mut self) -> Vec<Cow<'s, Spec>> {
        self.devices_read = true;
        self.devices.clone()
    }

    /// The value of `name` as read by `read`, or `None` if it is not given and has no default:
    /// `args.optional("limit", Args::size)`.
    ///
    /// # Errors
    ///
    /// Those of `read`, except [`MissingArgument`](SpecErrorKind::MissingArgument).
    pub fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        let param = self.declared(name)?;
        if self.is_given(name) || param.has_default() { read(self, name).map(Some) } else { Ok(None) }
    }

    /// The spec whose arguments they are.
    pub fn spec(&self) -> &'s Spec {
        self.spec
    }

    /// Whether the user gave `name`, with or without naming it.
    pub fn is_given(&self, name: &str) -> bool {
        self.bound.iter().any(|bound| bound.param.name == name)
    }

    /// An error about the value of `name` that its kind cannot express, such as that it must be a multiple of
    /// another. It points at the value, or at the device if the value is the default.
    pub fn reject(&self, name: &str, message: impl Into<String>) -> SpecError {
        self.about(SpecErrorKind::Rejected, name, message)
    }

    /// As [`reject`](Args::reject), of the kind [`Unfit`](SpecErrorKind::Unfit): the value is valid, but not
    /// for the devices or files present.
    pub fn unfit(&self, name: &str, message: impl Into<String>) -> SpecError {
        self.about(SpecErrorKind::Unfit, name, message)
    }

    /// The text of the value given for `name`, as the user wrote it.
    pub fn typed(&self, name: &str) -> Option<&'s str> {
        let bound = self.bound.iter().find(|bound| bound.param.name == name)?;
        self.spec.source().get(bound.value_span.clone())
    }

    fn about(&self, kind: SpecErrorKind, name: &str, message: impl Into<String>) -> SpecError {
        let bound = self.bound.iter().find(|bound| bound.param.name == name);
        let at = bound.map_or_else(|| self.spec.name_span.clone(), |bound| bound.value_span.clone());
        let error = self.spec.error(kind, at, message);
        match self.signature.find(name) {
            Some(param) => error.with_help(param.to_string()),
            None => error,
        }
    }

    /// Makes sure that everything given has been read. Call it last.
    ///
    /// # Errors
    ///
    /// As for [`Args::check_all_read`].
    pub fn finish(self) -> Result<(), SpecError> {
        self.check_all_read()
    }

    /// Checks that all given arguments have been read, before a device does something irreversible.
    ///
    /// # Errors
    ///
    /// [`Unused`](SpecErrorKind::Unused) for the first argument that was not read: it is allowed, but has no
    /// effect together with the others.
    pub fn check_all_read(&self) -> Result<(), SpecError> {
        let device = &self.spec.name;
        if let Some(bound) = self.bound.iter().find(|bound| !bound.read) {
            let message = format!("`{}` has no effect on this {device}", bound.param.name);
            let error = self.spec.error(SpecErrorKind::Unused, bound.span.clone(), message);
            return Err(error.with_help("remove it, or change the argument that makes it meaningless"));
        }
        match self.devices.first() {
            Some(first) if !self.devices_read => {
                let message = format!("the devices of this {device} have no effect");
                Err(self.spec.error(SpecErrorKind::Unused, first.span(), message))
            }
            _ => Ok(()),
        }
    }

    fn named(&self, arg: &Arg, name: &str) -> Result<&'static Argument, SpecError> {
        if let Some(param) = self.signature.find(name) {
            return Ok(param);
        }
        let message = format!("{} has no argument `{}`", self.spec.name, shown(name));
        let error = self.spec.error(SpecErrorKind::UnknownArgument, arg.name_span(), message);
        let names = self.signature.params().map(|param| param.name);
        let help = format!("the arguments of {} are: {}", self.spec.name, list(names.clone()));
        Err(error.suggesting(closest(name, names)).with_help(help))
    }

    fn bind(&mut self, arg: &Arg, param: &'static Argument) -> Result<(), SpecError> {
        if self.is_given(param.name) {
            let message = format!("`{}` of {} is given twice", param.name, self.spec.name);
            let error = self.spec.error(SpecErrorKind::DuplicateArgument, arg.span(), message);
            return Err(error.with_help("remove one of the two"));
        }
        let value_span = arg.value().span();
        let value = param
            .kind
            .read(arg.value(), &self.spec.source)
            .map_err(|error| self.bad_value(param, value_span.clone(), error))?;
        if let Value::Device(device) = &value {
            device.as_device(&self.spec.source)?;
        }
        self.bound.push(Bound { param, value, span: arg.span(), value_span, read: false });
        Ok(())
    }

    fn bad_value(&self, param: &Argument, at: Span, error: ValueError) -> SpecError {
        let kind = match error.kind {
            ValueErrorKind::Malformed => SpecErrorKind::BadValue,
            ValueErrorKind::OutOfRange => SpecErrorKind::OutOfRange,
        };
        let message = format!("`{}` of {}: {}", param.name, self.spec.name, error.message);
        let mut result = self.spec.error(kind, at, message);
        if let Some(help) = error.help {
            result = result.with_help(help);
        }
        result.with_help(param.to_string())
    }

    fn add_device(&mut self, arg: &'s Arg) -> Result<(), SpecError> {
        let device = &self.spec.name;
        if let ArgValue::Word(word) = arg.value()
            && !word.is_quoted()
            && let Some(param) = self.signature.find(word.text())
        {
            // Most likely a switch without its value; opening a file of this name would surprise.
            let name = param.name;
            let message = format!("`{name}` of {device} needs a value");
            let error = self.spec.error(SpecErrorKind::BadValue, arg.span(), message);
            let help = format!("write {name}=…; a file of this name is written ./{name}");
            return Err(error.with_help(help).with_help(param.to_string()));
        }
        if *self.signature.devices.end() == 0 {
            let message = match self.signature.unnamed.len() {
                0 => format!("{device} takes no unnamed argument"),
                1 => format!("{device} takes only one unnamed argument"),
                n => format!("{device} takes only {n} unnamed arguments"),
            };
            let error = self.spec.error(SpecErrorKind::TooManyArguments, arg.span(), message);
            let names = self.signature.params().map(|param| param.name);
            let help = format!("write name=value; the names are: {}", list(names));
            return Err(error.with_help(format!("{help}; put a path with `,` in it in quotes")));
        }
        let count = self.devices.len() + 1;
        if count > *self.signature.devices.end() {
            return Err(self.wrong_count(arg.span(), &format!("this is number {count}")));
        }
        self.devices.push(arg.value().as_device(&self.spec.source)?);
        Ok(())
    }

    fn check_count(&self) -> Result<(), SpecError> {
        let count = self.devices.len();
        if count >= *self.signature.devices.start() {
            return Ok(());
        }
        let given = match count {
            0 => "none is given".to_owned(),
            1 => "only one is given".to_owned(),
            n => format!("only {n} are given"),
        };
        Err(self.wrong_count(self.spec.name_span.clone(), &given))
    }

    fn wrong_count(&self, at: Span, given: &str) -> SpecError {
        let (least, most) = (*self.signature.devices.start(), *self.signature.devices.end());
        let range = match (least, most) {
            (1, 1) => "exactly one device".to_owned(),
            _ if least == most => format!("exactly {least} devices"),
            (1, usize::MAX) => "at least one device".to_owned(),
            (_, usize::MAX) => format!("at least {least} devices"),
            _ => format!("{least} to {most} devices"),
        };
        let message = format!("{} stands on {range}, but {given}", self.spec.name);
        self.spec.error(SpecErrorKind::DeviceCount, at, message)
    }

    /// The parameter `name`, which the device must have declared.
    fn declared(&self, name: &str) -> Result<&'static Argument, SpecError> {
        self.signature.find(name).ok_or_else(|| self.undeclared(name, "any kind"))
    }

    fn undeclared(&self, name: &str, kind: &str) -> SpecError {
        let message = format!(
            "mistake in the program: {} reads `{name}` ({kind}), but its table has no such parameter",
            self.spec.name
        );
        self.spec.error(SpecErrorKind::Table, self.spec.name_span.clone(), message)
    }

    fn read<T>(&mut self, name: &str, kind: &str, pick: fn(Value) -> Option<T>) -> Result<T, SpecError> {
        let param = self.declared(name)?;
        let value = match self.bound.iter_mut().find(|bound| bound.param.name == name) {
            Some(bound) => {
                bound.read = true;
                bound.value.clone()
            }
            None => self.default(param)?,
        };
        pick(value).ok_or_else(|| self.undeclared(name, kind))
    }

    fn default(&self, param: &Argument) -> Result<Value, SpecError> {
        let device = &self.spec.name;
        if !param.has_default() {
            let message = format!("{device} needs the argument `{}`", param.name);
            let at = self.spec.name_span.clone();
            let error = self.spec.error(SpecErrorKind::MissingArgument, at, message);
            return Err(error
                .with_help(format!("write {device}({}=…)", param.name))
                .with_help(param.to_string()));
        }
        param.kind.read(&default_value(param), &self.spec.source).map_err(|error| {
            let message = format!("mistake in the program: the default of `{}`: {error}", param.name);
            self.spec.error(SpecErrorKind::Table, self.spec.name_span.clone(), message)
        })
    }
}
