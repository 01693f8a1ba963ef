// RDF4J's memory store in this process: takes the change in and evaluates the query again, to its last solution.
// Run as a source file, with RDF4J's jars: java -cp 'JARS/*' bench/ivm/drivers/Rdf4j.java

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.List;
import org.eclipse.rdf4j.model.Model;
import org.eclipse.rdf4j.model.Statement;
import org.eclipse.rdf4j.model.Value;
import org.eclipse.rdf4j.query.BindingSet;
import org.eclipse.rdf4j.query.BooleanQuery;
import org.eclipse.rdf4j.query.GraphQuery;
import org.eclipse.rdf4j.query.Query;
import org.eclipse.rdf4j.query.TupleQuery;
import org.eclipse.rdf4j.query.TupleQueryResult;
import org.eclipse.rdf4j.query.impl.SimpleDataset;
import org.eclipse.rdf4j.repository.sail.SailRepository;
import org.eclipse.rdf4j.repository.sail.SailRepositoryConnection;
import org.eclipse.rdf4j.rio.RDFFormat;
import org.eclipse.rdf4j.rio.Rio;
import org.eclipse.rdf4j.rio.helpers.NTriplesUtil;
import org.eclipse.rdf4j.sail.memory.MemoryStore;

public class Rdf4j {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static SailRepository repository;
  private static SailRepositoryConnection connection;
  private static String text;

  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode request = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      try {
        answer(request, answer);
      } catch (Exception error) {
        String kind = request.get("op").asText().equals("start") ? "refused" : "error";
        answer = JSON.createObjectNode().put(kind, String.valueOf(error.getMessage()));
      }
      System.out.println(JSON.writeValueAsString(answer));
      System.out.flush();
    }
  }

  private static void answer(JsonNode request, ObjectNode answer) throws Exception {
    switch (request.get("op").asText()) {
      case "hello" -> answer.put("engine", "RDF4J " + MemoryStore.class.getPackage().getImplementationVersion());
      case "start" -> {
        long begun = System.nanoTime();
        if (repository != null) {
          connection.close();
          repository.shutDown();
        }
        repository = new SailRepository(new MemoryStore());
        connection = repository.getConnection();
        connection.begin();
        connection.add(new File(request.get("file").asText()), RDFFormat.NQUADS);
        connection.commit();
        text = request.get("query").asText();
        evaluate(null);
        answer.put("seconds", (System.nanoTime() - begun) / 1e9);
      }
      case "apply" -> {
        Model deletes = parsed(request.get("delete"));
        Model inserts = parsed(request.get("insert"));
        long begun = System.nanoTime();
        connection.begin();
        connection.remove(deletes);
        connection.add(inserts);
        connection.commit();
        evaluate(null);
        answer.put("seconds", (System.nanoTime() - begun) / 1e9);
      }
      default -> evaluate(answer.putArray("rows"));
    }
  }

  private static Model parsed(JsonNode lines) throws Exception {
    var joined = new StringBuilder();
    lines.forEach(line -> joined.append(line.asText()).append('\n'));
    return Rio.parse(new StringReader(joined.toString()), "", RDFFormat.NQUADS);
  }

  private static Query prepared() {
    Query query = connection.prepareQuery(text);
    var dataset = new SimpleDataset(); // the default graph is the unnamed graph alone; RDF4J's is all graphs
    dataset.addDefaultGraph(null);
    connection.getContextIDs().forEach(name -> {
      if (name instanceof org.eclipse.rdf4j.model.IRI graph) {
        dataset.addNamedGraph(graph);
      }
    });
    query.setDataset(dataset);
    return query;
  }

  private static void evaluate(ArrayNode rows) {
    Query query = prepared();
    if (query instanceof BooleanQuery ask) {
      if (ask.evaluate() && rows != null) {
        rows.addArray();
      }
    } else if (query instanceof GraphQuery construct) {
      var found = new LinkedHashSet<Statement>();
      try (var result = construct.evaluate()) {
        result.forEach(found::add);
      }
      if (rows != null) {
        found.forEach(one -> row(rows, List.of(one.getSubject(), one.getPredicate(), one.getObject())));
      }
    } else {
      try (TupleQueryResult result = ((TupleQuery) query).evaluate()) {
        List<String> names = result.getBindingNames();
        while (result.hasNext()) {
          BindingSet solution = result.next();
          if (rows != null) {
            row(rows, names.stream().map(solution::getValue).toList());
          }
        }
      }
    }
  }

  private static void row(ArrayNode rows, List<? extends Value> values) {
    ArrayNode row = rows.addArray();
    values.forEach(value -> row.add(value == null ? null : NTriplesUtil.toNTriplesString(value)));
  }
}
