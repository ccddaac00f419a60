//! For every format: a random record, as far as the format can express it, comes back exactly as it was.

use gradus_core::Record;
use gradus_data::readers::Format;
use proptest::prelude::*;

use super::comes_back;
use super::rows::row_of;

macro_rules! laws {
    ($($name:ident: $format:ident),* $(,)?) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(row in row_of(Format::$format)) {
                    let record = comes_back(&row, Format::$format);
                    let ours = Format::Gradus.write(&record).rows;
                    let again = Format::Gradus.read(ours[0].as_object().unwrap().clone()).unwrap();
                    prop_assert_eq!(again.record, record);
                }
            )*
        }

        #[test]
        fn every_format_has_a_law() {
            let with = [Format::Gradus, $(Format::$format),*];
            assert_eq!(with, Format::ALL);
        }
    };
}

laws! {
    trl: Trl,
    prm800k_as_published: Prm800k,
    prm800k_ratings: Prm800kRatings,
    prm800k_prefixes: Prm800kPrefixes,
    math_shepherd: MathShepherd,
    openrlhf: OpenRlhf,
    paddlenlp: PaddleNlp,
    rlhflow: RlhFlow,
    processbench: ProcessBench,
    first_error: FirstError,
    prmbench: PrmBench,
    mr_ben: MrBen,
    mr_gsm8k: MrGsm8k,
    reasoneval: ReasonEval,
    stepverify: StepVerify,
    eic: Eic,
    parc: Parc,
    bigbench_mistake: BigBenchMistake,
    label_studio: LabelStudio,
    argilla: Argilla,
    best_of_n_candidates: BestOfN,
    candidate_outcomes: CandidateOutcomes,
    many_models: ManyModels,
    gsm8k_solutions: Gsm8kSolutions,
    musique: Musique,
    spatial: Spatial,
    outputs: Outputs,
    gsm8k: Gsm8k,
    math: Math,
    problems: Problems,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// What a format writes of another format's record, it reads again without a fault.
    #[test]
    fn records_cross_formats(rows in Format::ALL[1..].iter().map(|&format| row_of(format)).collect::<Vec<_>>()) {
        for row in &rows {
            let (from, parsed) = super::read(row);
            for to in Format::ALL.into_iter().filter(|&to| to != from) {
                for written in to.write(&parsed.record).rows {
                    let again = to.read(written.as_object().unwrap().clone());
                    prop_assert!(again.is_ok(), "{} to {}: {:?}: {written}", from.name(), to.name(), again.err());
                    let again = again.unwrap();
                    prop_assert!(again.issues.is_empty(), "{} to {}: {written}", from.name(), to.name());
                }
            }
        }
    }

    /// Records of every format survive a file of them.
    #[test]
    fn records_survive_every_container(rows in Format::ALL[1..].iter().map(|&format| row_of(format)).collect::<Vec<_>>()) {
        let records: Vec<Record> = rows.iter().map(|row| super::read(row).1.record).collect();
        let scratch = super::Scratch::new();
        for name in ["records.jsonl.zst", "records.parquet", "records.csv"] {
            let path = scratch.path(name);
            let mut sink = gradus_data::files::Sink::create(gradus_data::files::Target::File(path.clone())).unwrap();
            for record in &records {
                sink.push(record).unwrap();
            }
            sink.finish().unwrap();
            let back: Vec<Record> =
                gradus_data::files::open(&[path], None).unwrap().map(|item| item.unwrap().record).collect();
            prop_assert_eq!(&back, &records, "{}", name);
        }
    }
}
