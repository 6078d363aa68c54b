"""From click logs: showings counted into cells, propensities, click models, judgments, interleaving."""
