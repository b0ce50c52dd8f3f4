package dataset

import "regexp"

// Older tools kept the live chunks of a layer in one folder, each with rows of
// many batches. Such a chunk is split into chunks of the present form.
var oldChunkName = regexp.MustCompile(`^chunk_[0-9]{1,9}\.jsonl$`)

// OldChunkDir is the prefix of an annotator's live chunks of the older form.
func OldChunkDir(dataset, annotator string) string {
	return LayersDir(dataset) + annotator + "/.temp/"
}

// OldRejectedKey is where the lines of such a chunk are kept that belong to no
// batch; file is the chunk's name within OldChunkDir.
func OldRejectedKey(dataset, annotator, file string) string {
	return OldChunkDir(dataset, annotator) + "_rejected/" + file
}

// ConversionKey is where the progress of a dataset's conversion lies.
func ConversionKey(dataset string) string { return dataset + "/_migration/status.json" }

// parseOldChunk takes the name of a file that lies in OldChunkDir.
func (k *Key) parseOldChunk(name string) {
	if oldChunkName.MatchString(name) {
		k.Kind = KindOldChunk
	}
}

// checkLayer reports the first name of a layer that breaks a rule.
func (b BatchID) checkLayer() error {
	if err := CheckDataset(b.Dataset); err != nil {
		return err
	}
	return CheckAnnotator(b.Annotator)
}
