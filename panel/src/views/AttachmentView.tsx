/** A file that came with a message: a picture is shown, anything else is named. */

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { PICTURE, type Attachment } from "../agui/items";
import type { Key } from "../app/rows";
import { authorization } from "../wire/api";

/** The thread that is shown: saved files are asked for by it. */
export const ShownThread = createContext<Key | null>(null);

export function AttachmentView({ file }: { file: Attachment }) {
  const url = usePicture(file);
  if (url === null) return <span class="chip">{file.name}</span>;
  return <img src={url} alt={file.name} class="picture" />;
}

/** A URL of the picture: of its data, or of what the daemon saved of it. */
function usePicture(file: Attachment): string | null {
  const thread = useContext(ShownThread);
  const [url, setUrl] = useState(file.url ?? null);
  useEffect(() => {
    if (file.url || !file.saved || thread === null || !PICTURE.test(file.mimeType)) return;
    let made: string | null = null;
    const abort = new AbortController();
    const asked = new URLSearchParams({ ...thread, name: file.saved });
    void fetch(`/api/attachment?${asked}`, { headers: authorization(), signal: abort.signal })
      .then(async (answer) => {
        if (!answer.ok) return;
        // Of the kind that was checked, whatever is in it: nothing but a picture comes of it.
        const blob = new Blob([await answer.arrayBuffer()], { type: file.mimeType });
        if (!abort.signal.aborted) setUrl((made = URL.createObjectURL(blob)));
      })
      .catch(() => undefined); // its name is shown
    return () => {
      abort.abort();
      if (made !== null) URL.revokeObjectURL(made);
    };
  }, [file.saved]);
  return url;
}
