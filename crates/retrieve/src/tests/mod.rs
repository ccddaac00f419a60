//! Pools and retrieval with made-up records and an encoder that counts words; TF-IDF and PCA against scikit-learn; the
//! speed of search.

pub(crate) mod contract;
pub(crate) mod fake;
mod foreign;
mod growth;
mod leak;
mod pca;
pub(crate) mod pool;
mod tfidf;
mod two_stage;
mod writers;
