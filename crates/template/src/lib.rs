//! Jinja templates that run within limits: a model's chat template and a profile come from strangers, and must neither
//! hang nor fill the memory.
//!
//! minijinja counts instructions (its fuel), but not what one of them costs: `s ~ s` forty times is a terabyte, `[a, a]`
//! forty times a list that takes centuries to print. Therefore a template is compiled and then metered (`metered.rs`):
//! operators, filters, tests, calls and output are preceded or followed by a check that charges what they read and make
//! (`meter.rs`). Filters and methods that can make much of little are charged before they run (`amplifiers.rs`).
//!
//! | limit | value |
//! |---|---|
//! | source | 1 MiB; 1,000 tokens and 64 KiB of literals in one `{{ … }}` or `{% … %}` |
//! | instructions | 5 million |
//! | values that are made or read | 256 MiB, and 64 times the input |
//! | text that is written | 32 MiB, and 8 times the input |
//! | depth of nested values; namespaces | 32; 128 |

mod amplifiers;
mod meter;
mod metered;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::machinery::{CompiledTemplate, Instructions, TemplateConfig, eval, make_string_output};
pub use minijinja::syntax::SyntaxConfig;
pub use minijinja::value::{Kwargs, Serde, Value, ValueKind};
pub use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, context, escape_formatter,
};

pub use meter::spend;

/// A compiled template.
///
/// ```
/// use gradus_template::{SyntaxConfig, Template, context, environment};
/// let template = |source: &str| Template::new(environment(), SyntaxConfig::default(), source).unwrap();
/// assert_eq!(template("Solve {{ problem }}").render(context! { problem => "1 + 1" }).unwrap(), "Solve 1 + 1");
/// let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
/// let said = template(endless).render(context! {}).unwrap_err().to_string();
/// assert!(said.contains("limit of 5000000 instructions"), "{said}");
/// ```
#[derive(Clone)]
pub struct Template(Arc<Program>);

struct Program {
    environment: Environment<'static>,
    source: &'static str,
    syntax: SyntaxConfig,
    instructions: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
}

/// The environment that templates are compiled in: minijinja's own, Python's methods on strings and dictionaries, and no
/// function that shows the state.
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(meter::INSTRUCTIONS));
    environment.set_recursion_limit(200);
    environment.remove_global("debug");
    amplifiers::replace(&mut environment);
    metered::add_checks(&mut environment);
    environment
}

impl Template {
    /// Compiles `source`. Nothing is escaped for HTML.
    pub fn new(
        mut environment: Environment<'static>,
        syntax: SyntaxConfig,
        source: &str,
    ) -> Result<Self, Error> {
        let source = keep(&source::checked(source, &syntax)?);
        let config = TemplateConfig {
            syntax_config: syntax.clone(),
            default_auto_escape: Arc::new(|_| AutoEscape::None),
        };
        let compiled = CompiledTemplate::new("template", source, &config)?;
        let instructions = metered::metered(&compiled.instructions, &mut environment)?;
        let blocks = compiled
            .blocks
            .iter()
            .map(|(name, block)| Ok((*name, metered::metered(block, &mut environment)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self(Arc::new(Program { environment, source, syntax, instructions, blocks })))
    }

    /// Renders it. An error that a limit caused names the limit.
    pub fn render(&self, values: Value) -> Result<String, Error> {
        let Program { environment, instructions, blocks, .. } = &*self.0;
        let mut text = String::new();
        let rendered = meter::within(&values.clone(), || {
            let mut out = make_string_output(&mut text);
            eval(environment, instructions, values, blocks, &mut out, AutoEscape::None).map(drop)
        });
        rendered.map(|()| text).map_err(meter::named)
    }

    /// The variables that it reads and does not set.
    pub fn variables(&self) -> HashSet<String> {
        let mut environment = Environment::new();
        environment.set_syntax(self.0.syntax.clone());
        let template = environment.template_from_str(self.0.source);
        template.map(|template| template.undeclared_variables(false)).unwrap_or_default()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.0.source).finish()
    }
}

/// Keeps a text for as long as the program runs, once: minijinja's instructions borrow from their source, and a program
/// has few templates.
fn keep(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    text
}

#[cfg(test)]
mod tests;
