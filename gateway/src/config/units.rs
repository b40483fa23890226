//! The forms a setting's value can have: durations and sizes carry their unit, choices name what they allow.

use std::net::SocketAddr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::node::{Node, Value};

/// A type of setting.
pub trait Setting: Sized {
    /// The form, for the reference: `duration (250ms, 30s, 5m, 2h, 1d)`.
    const FORM: &'static str;
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, in words for the person who wrote the setting.
    fn read(node: &Node) -> Result<Self, String>;
    /// Shows it as TOML.
    fn show(&self) -> String;
}

fn wanted<T: Setting>(node: &Node) -> String {
    format!("must be {}, not {}", T::FORM, node.value.kind())
}

fn text(node: &Node) -> Option<&str> {
    match (&node.text, &node.value) {
        (Some(text), _) => Some(text),
        (None, Value::String(text)) => Some(text),
        _ => None,
    }
}

impl Setting for String {
    const FORM: &'static str = "a string";
    fn read(node: &Node) -> Result<String, String> {
        match (&node.value, text(node)) {
            (Value::String(text), _) => Ok(text.clone()),
            (_, Some(text)) => Ok(text.to_owned()),
            _ => Err(wanted::<String>(node)),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Setting for SecretString {
    const FORM: &'static str = "a secret string, never logged";
    fn read(node: &Node) -> Result<SecretString, String> {
        let secret = String::read(node).map_err(|_| wanted::<SecretString>(node))?;
        if secret.is_empty() {
            return Err("must not be empty".into());
        }
        Ok(secret.into())
    }
    fn show(&self) -> String {
        format!("{:?}", "*".repeat(self.expose_secret().len().min(3)))
    }
}

impl Setting for bool {
    const FORM: &'static str = "true or false";
    fn read(node: &Node) -> Result<bool, String> {
        match node.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(wanted::<bool>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for u64 {
    const FORM: &'static str = "a whole number, 0 or more";
    fn read(node: &Node) -> Result<u64, String> {
        match node.value {
            Value::Integer(value) => {
                u64::try_from(value).map_err(|_| format!("{value} is negative"))
            }
            _ => Err(wanted::<u64>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    const FORM: &'static str = "a whole number, 0 or more";
    fn read(node: &Node) -> Result<u32, String> {
        u32::try_from(u64::read(node)?).map_err(|_| "is too large".to_owned())
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for f64 {
    const FORM: &'static str = "a number";
    fn read(node: &Node) -> Result<f64, String> {
        match node.value {
            Value::Float(value) if value.is_finite() => Ok(value),
            #[allow(clippy::cast_precision_loss)]
            Value::Integer(value) => Ok(value as f64),
            _ => Err(wanted::<f64>(node)),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Setting for SocketAddr {
    const FORM: &'static str = "an address and port (\"127.0.0.1:8080\", \"[::]:80\")";
    fn read(node: &Node) -> Result<SocketAddr, String> {
        let text = text(node).ok_or_else(|| wanted::<SocketAddr>(node))?;
        text.parse()
            .map_err(|_| format!("{text:?} is not an address and port such as \"127.0.0.1:8080\""))
    }
    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Setting for Vec<String> {
    const FORM: &'static str = "an array of strings";
    fn read(node: &Node) -> Result<Vec<String>, String> {
        match &node.value {
            Value::Array(items) => items.iter().map(String::read).collect(),
            _ => Err(wanted::<Vec<String>>(node)),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Setting for Duration {
    const FORM: &'static str =
        "a duration with its unit (\"250ms\", \"30s\", \"5m\", \"2h\", \"1d\")";
    fn read(node: &Node) -> Result<Duration, String> {
        let text = text(node).ok_or_else(|| {
            "needs a unit: write \"30s\", \"250ms\", \"5m\", \"2h\" or \"1d\"".to_owned()
        })?;
        duration(text)
    }
    fn show(&self) -> String {
        let ms = self.as_millis();
        for (unit, size) in [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("m", 60_000),
            ("s", 1000),
        ] {
            if ms >= size && ms.is_multiple_of(size) {
                return format!("\"{}{unit}\"", ms / size);
            }
        }
        format!("\"{ms}ms\"")
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err(format!("{text:?} needs a unit: ms, s, m, h or d")),
        _ => {
            return Err(format!(
                "{unit:?} is not a unit of time: use ms, s, m, h or d"
            ));
        }
    };
    number
        .checked_mul(unit_ms)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is too long"))
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The size as a length in memory.
    #[must_use]
    pub fn len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Setting for Bytes {
    const FORM: &'static str = "a size with its unit (\"512B\", \"16KiB\", \"8MiB\", \"2GiB\")";
    fn read(node: &Node) -> Result<Bytes, String> {
        let text = text(node).ok_or_else(|| {
            "needs a unit: write \"512B\", \"16KiB\", \"8MiB\" or \"2GiB\"".to_owned()
        })?;
        let (number, unit) = split(text)?;
        let shift = match unit {
            "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "" => return Err(format!("{text:?} needs a unit: B, KiB, MiB or GiB")),
            _ => {
                return Err(format!(
                    "{unit:?} is not a unit of size: use B, KiB, MiB or GiB"
                ));
            }
        };
        number
            .checked_mul(1 << shift)
            .map(Bytes)
            .ok_or_else(|| format!("{text:?} is too large"))
    }
    fn show(&self) -> String {
        for (unit, size) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return format!("\"{}{unit}\"", self.0 / size);
            }
        }
        format!("\"{}B\"", self.0)
    }
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits]
        .parse()
        .map_err(|_| format!("{text:?} must begin with a whole number"))?;
    Ok((number, text[digits..].trim_start()))
}

/// A choice among words: declares the enum, its words and how it is read.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $crate::config::units::Setting for $name {
            const FORM: &'static str = concat!("one of" $(, " \"", $word, "\"")+);
            fn read(node: &$crate::config::node::Node) -> Result<$name, String> {
                match <String as $crate::config::units::Setting>::read(node)?.as_str() {
                    $($word => Ok($name::$variant),)+
                    other => Err(format!("{other:?} is not {}", Self::FORM)),
                }
            }
            fn show(&self) -> String {
                match self { $($name::$variant => format!("{:?}", $word)),+ }
            }
        }
    };
}
pub(crate) use choice;
