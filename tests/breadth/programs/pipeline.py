# SPDX-License-Identifier: BSD-2-Clause
"""spaCy's blank pipeline: Cython and Python."""
import spacy
from truth import Truth

nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
texts = ["A sentence is here. Another one follows it, and a third one too! Is this a question?"] * 200
truth = Truth()
while truth.going():
    for document in nlp.pipe(texts):
        len(list(document.sents))
truth.finish()
