//! Settings: the file, then `FRESHET_…` variables, then flags, each over the one before; every mistake reported with
//! its place (`freshet check`). What comes out is complete and checked: nothing later asks whether a setting was given.

mod edges;
mod grid;
pub mod node;
pub mod policy;
pub mod reader;
mod rules;
pub mod settings;
mod stores;
pub mod units;

use std::collections::BTreeMap;
use std::path::Path;

pub use node::{Mistake, Place};
pub use reader::{Declared, variable_name};
pub use settings::Settings;

use reader::{Reader, Report};

/// Where settings come from, apart from the file.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// Flags by setting path.
    pub flags: BTreeMap<String, String>,
}

/// Variables that belong to the command line, not to the settings.
const OWN_VARIABLES: [&str; 1] = ["FRESHET_CONFIG"];

/// Reads all settings.
///
/// # Errors
/// All mistakes, in the order of their places.
pub fn load(file: Option<&Path>, layers: &Layers) -> Result<Settings, Vec<Mistake>> {
    let (name, source) = match file {
        None => (String::new(), String::new()),
        Some(path) => match std::fs::read_to_string(path) {
            Ok(source) => (path.display().to_string(), source),
            Err(error) => {
                return Err(vec![Mistake {
                    place: Place::File(path.display().to_string().into(), 1, 1),
                    what: format!("cannot be read: {error}"),
                }]);
            }
        },
    };
    parse(&name, &source, layers)
}

/// Reads settings from the text of a file.
///
/// # Errors
/// All mistakes.
pub fn parse(file: &str, source: &str, layers: &Layers) -> Result<Settings, Vec<Mistake>> {
    let (tree, mistakes) = node::parse_file(file, source);
    let mut report = Report {
        variables: ours(&layers.variables),
        flags: layers.flags.clone(),
        mistakes,
        declared: Vec::new(),
    };
    let settings = {
        let mut top = Reader::top(&tree, &mut report);
        let settings = Settings::read(&mut top);
        top.finish();
        settings
    };
    unknown_layers(&mut report);
    if report.mistakes.is_empty() {
        Ok(settings)
    } else {
        Err(report.mistakes)
    }
}

/// Every setting there is, in order of declaration.
#[must_use]
pub fn reference() -> Vec<Declared> {
    let (tree, _) = node::parse_file("", "");
    let mut report = Report::default();
    let _ = Settings::read(&mut Reader::top(&tree, &mut report));
    report.declared
}

/// The reference as a TOML file with every setting commented out.
#[must_use]
pub fn reference_toml() -> String {
    let mut text = String::new();
    let mut table = "";
    let declared = reference();
    for setting in &declared {
        let (prefix, name) = setting.path.rsplit_once('.').unwrap_or(("", &setting.path));
        if prefix != table {
            table = prefix;
            let header = match prefix.strip_suffix("[]") {
                Some(array) => format!("\n# [[{array}]]\n"),
                None => format!("\n# [{prefix}]\n"),
            };
            text.push_str(&header);
        }
        let default = setting.default.as_deref().unwrap_or("…");
        text.push_str(&format!(
            "# {} Form: {}.\n# {name} = {default}\n",
            setting.doc, setting.form
        ));
    }
    text
}

fn ours(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    variables
        .iter()
        .filter(|(name, _)| name.starts_with("FRESHET_") && !OWN_VARIABLES.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn unknown_layers(report: &mut Report) {
    let tables = ["access", "edge"].map(String::from);
    let paths: Vec<String> = report
        .declared
        .iter()
        .map(|setting| setting.path.clone())
        .chain(tables)
        .collect();
    let variables: Vec<String> = paths.iter().map(|path| variable_name(path)).collect();
    for name in report.variables.keys() {
        if !variables.contains(name) {
            report.mistakes.push(Mistake {
                place: Place::Variable(name.clone()),
                what: "no setting has this variable".to_owned() + &hint(name, &variables),
            });
        }
    }
    for path in report.flags.keys() {
        if !paths.contains(path) {
            report.mistakes.push(Mistake {
                place: Place::Flag(format!("--set {path}")),
                what: "no such setting".to_owned() + &hint(path, &paths),
            });
        }
    }
}

fn hint(name: &str, known: &[String]) -> String {
    reader::nearest(name, known)
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(source: &str) -> Vec<String> {
        parse("f.toml", source, &Layers::default())
            .map(|_| Vec::new())
            .unwrap_or_else(|all| all.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let found = mistakes(
            "store = \"embedded:/x\"\nstroe = 1\n[server]\nlisten = \"nowhere\"\nidle_timeout = 30\n\n[[access]]\ncollection = \"a.*\"\nread = \"everyone\"\n",
        );
        let starts: Vec<&str> = found
            .iter()
            .map(|m| m.split(' ').next().unwrap_or(""))
            .collect();
        assert_eq!(found.len(), 4, "{found:#?}");
        for place in ["f.toml:2:1:", "f.toml:4:10:", "f.toml:5:16:", "f.toml:9:8:"] {
            assert!(starts.contains(&place), "{place} in {found:#?}");
        }
        assert!(found.iter().any(|m| m.contains("did you mean `store`?")));
        assert!(found.iter().any(|m| m.contains("needs a unit")));
    }

    #[test]
    fn flags_win_over_variables_over_the_file() {
        let file = "store = \"embedded:file\"\n[limits]\nbody_bytes_max = \"1MiB\"\n";
        let mut layers = Layers::default();
        layers
            .variables
            .insert("FRESHET_LIMITS_BODY_BYTES_MAX".into(), "2MiB".into());
        layers
            .variables
            .insert("FRESHET_STORE".into(), "embedded:env".into());
        layers.flags.insert("store".into(), "embedded:flag".into());
        let settings = parse("f", file, &layers).expect("valid");
        assert_eq!(settings.limits.body_bytes_max, units::Bytes(2 << 20));
        assert_eq!(
            settings.store,
            settings::StoreChoice::Embedded("flag".into())
        );
    }

    #[test]
    fn an_unknown_variable_or_flag_is_a_mistake() {
        let mut layers = Layers::default();
        layers.variables.insert("FRESHET_STROE".into(), "x".into());
        layers.variables.insert("FRESHET_CONFIG".into(), "x".into());
        layers.flags.insert("server.lisen".into(), "x".into());
        let found = parse("f", "store = \"embedded:x\"", &layers).expect_err("two mistakes");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what.contains("FRESHET_STORE"));
    }

    #[test]
    fn arrays_can_come_from_a_variable() {
        let mut layers = Layers::default();
        layers.variables.insert(
            "FRESHET_ACCESS".into(),
            "[{collection = \"shop.*\", read = \"public\"}]".into(),
        );
        let settings = parse("f", "store = \"embedded:x\"", &layers).expect("valid");
        assert_eq!(settings.access.len(), 1);
    }

    #[test]
    fn the_reference_is_itself_readable_as_settings() {
        let uncommented: String = reference_toml()
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| {
                (line.contains(" = ") && !line.contains("Form:") && !line.ends_with('…'))
                    || line.starts_with('[')
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let text = format!("store = \"embedded:x\"\n{uncommented}");
        let left: Vec<String> = mistakes(&text)
            .into_iter()
            .filter(|m| !m.contains("is missing"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }

    #[test]
    fn the_same_edge_twice_is_a_mistake_at_the_second() {
        let fastly = "[[edge]]\nkind = \"fastly\"\nservice = \"S1\"\nsecret = \"t\"\n";
        let varnish = "[[edge]]\nurls = [\"http://a:1\"]\n";
        let of = |edges: &str| mistakes(&format!("store = \"embedded:x\"\n{edges}"));
        let others = fastly.replace("S1", "S2") + &varnish.replace(":1", ":2");
        let fine = format!("{fastly}{varnish}{others}");
        assert_eq!(of(&fine), Vec::<String>::new());
        for again in [fastly, varnish] {
            let found = of(&format!("{fine}{again}"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("purged already"), "{found:?}");
            let line: u32 = found[0]
                .split(':')
                .nth(1)
                .unwrap_or("")
                .parse()
                .expect("a line");
            assert!(line > 13, "{found:?}");
        }
    }

    #[test]
    fn an_edge_has_what_its_kind_needs_and_nothing_of_another() {
        let of = |edge: &str| mistakes(&format!("store = \"embedded:x\"\n[[edge]]\n{edge}"));
        for fine in [
            "urls = [\"http://a:1\", \"http://b:1\"]",
            "kind = \"fastly\"\nservice = \"SU1\"\nsecret = \"t\"\ncoalesce = \"100ms\"",
            "kind = \"cloudflare\"\nzone = \"023e\"\nsecret = \"t\"",
            "kind = \"akamai\"\nurls = [\"https://h\"]\nsecret = \"s\"\nclient_token = \"c\"\naccess_token = \"a\"",
            "kind = \"webhook\"\nurls = [\"https://h/purge\"]\nsecret = \"s\"\nauth = \"hmac\"\nkeys_max = 50",
        ] {
            assert_eq!(of(fine), Vec::<String>::new(), "{fine}");
        }
        for (wrong, words) in [
            ("kind = \"varnish\"", vec!["`urls` is missing"]),
            (
                "kind = \"fastly\"",
                vec!["`service` is missing", "`secret` is missing"],
            ),
            (
                "kind = \"fastly\"\nservice = \"a/b\"\nsecret = \"t\"",
                vec!["letters and digits"],
            ),
            (
                "kind = \"cloudflare\"\nzone = \"z\"\nsecret = \"t\"\nservice = \"s\"",
                vec!["`service` does not belong"],
            ),
            (
                "kind = \"akamai\"\nsecret = \"t\"",
                vec![
                    "`client_token` is missing",
                    "`access_token` is missing",
                    "`urls` is missing",
                ],
            ),
            (
                "kind = \"webhook\"\nurls = [\"https://h\"]\nsecret = \"s\"\nkeys_max = 0\ncoalesce = \"1m\"",
                vec!["from 1 to 10000", "at most 30s"],
            ),
            // What cannot be read is not also missing.
            ("urls = \"http://a:1\"", vec!["an array of strings"]),
            (
                "kind = \"fastly\"\nservice = 5\nsecret = \"\"",
                vec!["must not be empty", "a string"],
            ),
            (
                "kind = \"fastly\"\nservice = \"\"\nsecret = \"t\"",
                vec!["`service` is missing"],
            ),
            (
                "urls = [\"http://a:1\", \"http://b:1\", \"http://a:1/\"]",
                vec!["purged already"],
            ),
        ] {
            let found = of(wrong);
            assert_eq!(found.len(), words.len(), "{wrong}: {found:?}");
            for (found, word) in found.iter().zip(words) {
                assert!(found.contains(word), "{found}");
            }
        }
    }
}
