//! Outcome reward models: whether the whole solution is right, read where the last step's verdict is.

use gradus_engine::profile::{Assembler, Profile};

use super::prm::train_on;
use super::verdict::Verdict;
use crate::Result;
use crate::data::{last_steps, records};
use crate::heads;
use crate::run::recipe::{Loss, Orm};
use crate::session::Session;

/// Trains until the recipe's last step.
pub fn train(session: &mut Session<'_>, settings: &Orm) -> Result<()> {
    let assembler = Assembler::new(Profile::find(&settings.profile)?, session.trainee.model.tokenizer())?;
    let verdict = Verdict::new(&assembler, settings.head, settings.readout, Loss::CrossEntropy)?;
    heads::prepare(&mut session.trainee, settings.head)?;
    let data = session.recipe.data.clone();
    let tokenizer = session.trainee.model.tokenizer().clone();
    let most = data.max_tokens.min(session.trainee.model.context());
    let read = |paths: &[_], limit| {
        last_steps(&records(paths, data.reader()?, limit)?, &assembler, &tokenizer, most)
    };
    let train = read(&data.train, data.limit)?;
    let held_out = if data.eval.is_empty() { Default::default() } else { read(&data.eval, None)? };
    session.begin(&train, &held_out)?;
    let ((examples, _), (held_out, _)) = (train, held_out);
    train_on(session, verdict, &examples, &held_out, false)
}
