/** Server-sent events out of pieces of text. Pure. */

export interface ServerEvent {
  event: string;
  data: string;
}

/** Takes pieces as they come; answers the events that are whole by then. */
export class EventReader {
  #rest = "";

  take(piece: string): ServerEvent[] {
    const blocks = (this.#rest + piece).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map(parse).filter((event) => event !== null);
  }
}

function parse(block: string): ServerEvent | null {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length === 0 ? null : { event, data: data.join("\n") };
}
