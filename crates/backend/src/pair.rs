//! A generator and the scorer of its solutions, which may be one and the same engine.

use crate::local::{self, Local, Purpose};
use crate::{DEFAULT_GENERATOR, Generator, GeneratorSettings, Result, Scorer, ScorerSettings};

/// Opens both. Where they are the same local weights, one engine does both.
pub fn open_pair(
    generator: &GeneratorSettings,
    scorer: Option<&ScorerSettings>,
) -> Result<(Generator, Option<Scorer>)> {
    let Some(scorer) = scorer else { return Ok((Generator::open(generator)?, None)) };
    let Some(model) = shared(generator, scorer)? else {
        return Ok((Generator::open(generator)?, Some(Scorer::open(scorer)?)));
    };
    let purpose = Purpose::Scores { profile: scorer.profile.as_deref(), unpacked: scorer.no_tree_packing };
    local::expect_text(&model, &generator.local)?;
    let local = Local::start(&model, &generator.local, purpose)?;
    let scorer = Scorer::on(local.clone(), &model, scorer)?;
    Ok((Generator::on(local, model, generator)?, Some(scorer)))
}

/// The model that does both: an engine has one set of weights, and at most one profile.
fn shared(generator: &GeneratorSettings, scorer: &ScorerSettings) -> Result<Option<String>> {
    let here = |endpoints: &crate::EndpointSettings| endpoints.endpoint.is_empty();
    let local = here(&generator.endpoints) && here(&scorer.endpoints) && generator.recorded.is_none();
    if !local || generator.local != scorer.local {
        return Ok(None);
    }
    let model = local::model_name(generator.model.as_deref(), &generator.local, DEFAULT_GENERATOR)?;
    let usual = local::default_scorer(scorer.profile.as_deref());
    let judge = local::model_name(scorer.model.as_deref(), &scorer.local, usual)?;
    Ok((judge == model).then_some(model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndpointSettings, LocalSettings};

    #[test]
    fn the_same_weights_are_loaded_once() {
        let generator = GeneratorSettings { model: Some("m".into()), ..Default::default() };
        let scorer = ScorerSettings { model: Some("m".into()), ..Default::default() };
        assert_eq!(shared(&generator, &scorer).unwrap().as_deref(), Some("m"));
        let other = ScorerSettings { model: Some("n".into()), ..scorer.clone() };
        let local = LocalSettings { adapter: Some("a".into()), ..Default::default() };
        let adapted = ScorerSettings { local, ..scorer.clone() };
        let endpoints = EndpointSettings { endpoint: vec!["http://a".into()], ..Default::default() };
        let served = ScorerSettings { endpoints, ..scorer };
        for scorer in [other, adapted, served, ScorerSettings::default()] {
            assert_eq!(shared(&generator, &scorer).unwrap(), None, "{scorer:?}");
        }
        // Without names, a profile makes the scorer the generator.
        let profiled = ScorerSettings { profile: Some("plain".into()), ..Default::default() };
        let both = shared(&GeneratorSettings::default(), &profiled).unwrap();
        assert_eq!(both.as_deref(), Some(DEFAULT_GENERATOR));
    }
}
